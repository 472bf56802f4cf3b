"""Numbers and ranges of symbolic sizes, under the names programs know."""
