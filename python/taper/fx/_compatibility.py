"""Marks of how stable an interface is; here they only mark."""


def compatibility(is_backward_compatible=False):
    return lambda function: function
