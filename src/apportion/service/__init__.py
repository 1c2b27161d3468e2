"""A service in front of sessions: HTTP with JSON on a Unix socket or a local port."""
