"""Values that every room may import: errors, options, outcomes, reports, solutions, and how they print."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
