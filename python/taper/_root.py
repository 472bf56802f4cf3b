"""The root package as `torch`, under whatever name it was loaded.

Ops are looked up on it when they are called, never when a part of it is imported: a layer whose op the engine does not
have yet still gets its class, and calling it raises the root's own error.
"""
import sys

NAME = __name__.partition(".")[0]
torch = sys.modules[NAME]
