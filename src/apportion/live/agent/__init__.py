"""The agent on a node: runs one rank at a time and reports."""
