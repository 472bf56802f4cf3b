"""AdamW, which is Adam with another weight decay."""
from .adam import AdamW, adamw

__all__ = ["AdamW", "adamw"]
