"""How a matching is explained: by menus where it is weighed, by solving again where it is timed."""
