"""What a problem means mathematically: one file per formulation, readable beside the paper."""
