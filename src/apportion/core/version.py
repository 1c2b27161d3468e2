"""The version of the package, stated once more in pyproject.toml; a test holds the two together."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
