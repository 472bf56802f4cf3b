"""A file that imports as it is."""
import unittest


class TestWhole(unittest.TestCase):
    def test_pass(self):
        pass

    def test_other_pass(self):
        pass
