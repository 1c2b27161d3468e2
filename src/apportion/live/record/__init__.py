"""What the controller remembers: jobs, pilots and generations, on disk before it acts."""
