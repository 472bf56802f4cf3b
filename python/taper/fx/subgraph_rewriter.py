"""Replacing patterns in graphs."""

__all__ = ["replace_pattern", "replace_pattern_with_filters"]


def replace_pattern(gm, pattern, replacement):
    raise NotImplementedError("fx.replace_pattern is not implemented in Taper yet")


def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None, ignore_literals=False,
                                 replacement_callback=None):
    raise NotImplementedError("fx.subgraph_rewriter.replace_pattern_with_filters is not implemented in Taper yet")
