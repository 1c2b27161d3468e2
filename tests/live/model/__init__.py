"""A model of everything outside the controller's step, to play every order of faults on it."""
