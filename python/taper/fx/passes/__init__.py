"""Passes over graphs that are written as interpreters."""
from . import shape_prop

__all__ = ["shape_prop"]
