"""Tensors that stand for others: fake ones have sizes and types but no data."""
from .fake_tensor import (
    DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode, UnsupportedFakeTensorException,
)
