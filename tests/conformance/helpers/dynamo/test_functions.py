"""What test_modules.py takes from the test file beside it."""
_variable = 0


def constant3(a, b):
    return a - b + 3.0


def update_global(x):
    """Writes a global of a file other than the one being traced."""
    global _variable
    _variable += 1
    return x * _variable
