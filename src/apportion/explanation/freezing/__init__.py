"""How layer freezing is explained: by all its depths, and by what unfreezing a job would cost."""
