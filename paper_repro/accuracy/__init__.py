"""What freezing does to the accuracy of real trainings, small enough for a processor."""
