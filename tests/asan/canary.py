"""What make asan must report, in turn: a Python object, a tensor with its memory, nobody's any more."""
import ctypes
import sys

import taper as torch

lost = {"object": lambda: [object()], "tensor": lambda: torch.ones(1000)}[sys.argv[1]]()
ctypes.pythonapi.Py_IncRef(ctypes.py_object(lost))
