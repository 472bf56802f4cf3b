"""The canaries fail on purpose, and the helpers are for PyTorch's tests: neither is for pytest to collect."""
collect_ignore = ["canary", "helpers"]
