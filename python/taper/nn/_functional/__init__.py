"""The families of nn.functional; `functional.py` gathers them under their public name."""
