"""Hooks and data loading."""
from . import data, hooks
