"""Hard deadlines: a general solver runs in a child process that is ended when its time is up."""
