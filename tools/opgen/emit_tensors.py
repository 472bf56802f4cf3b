def emit_functions(op, world, functions):
    return [], {}
def for_variant(op, shared):
    return dict(shared)
