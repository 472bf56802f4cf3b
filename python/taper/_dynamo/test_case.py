"""The TestCase of tests of the capture: each test starts with nothing captured."""
from ..testing._internal.common_utils import TestCase as _TestCase
from ..testing._internal.common_utils import run_tests as _run_tests
from . import config, reset, utils


def run_tests(needs=()):
    _run_tests()


class TestCase(_TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls._settings = config.patch(raise_on_ctx_manager_usage=True, suppress_errors=False)
        cls._settings.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls._settings.__exit__(None, None, None)
        super().tearDownClass()

    def setUp(self):
        from .. import is_grad_enabled

        self._grad_mode = is_grad_enabled()
        super().setUp()
        reset()
        utils.counters.clear()

    def tearDown(self):
        from .. import set_grad_enabled

        super().tearDown()
        reset()
        utils.counters.clear()
        set_grad_enabled(self._grad_mode)
