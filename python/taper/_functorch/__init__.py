"""Function transforms and what stands on them."""
