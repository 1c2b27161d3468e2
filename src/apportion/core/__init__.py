"""Values that every room may import: errors, options, outcomes, reports, solutions, and how they print."""
