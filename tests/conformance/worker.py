"""The process that imports one test file and runs its tests, one at a time, as the parent names them.

    python worker.py FILE REPORT_FD strict|lenient

Reports are JSON lines on REPORT_FD: first the list of tests (or why the file does not import), then one outcome for
each test id that arrives on stdin. Outcomes: pass, fail (an assertion, or an unexpected success), error (any other
exception), skip, xfail. A crash or a hang is for the parent to notice.
"""
import importlib.util
import json
import os
import sys
import time
import traceback
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path = [folder for folder in sys.path if os.path.realpath(folder or ".") != HERE]


def sibling(name):
    """A module of the runner's, loaded by its path: the folder must not answer imports of the test files."""
    spec = importlib.util.spec_from_file_location(f"conformance_{name}", os.path.join(HERE, name + ".py"))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def last_line(text):
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:400] if lines else ""


class Result(unittest.TestResult):
    """The outcome of one test: the worst that was reported of it."""

    def __init__(self):
        super().__init__()
        self.outcome, self.detail, self.trace = None, "", ""

    def note(self, outcome, detail=""):
        if self.outcome in (None, "pass") or outcome in ("fail", "error"):
            self.outcome, self.detail = outcome, detail

    def bad(self, err):
        if err[0].__name__ == "XFailed":                    # pytest's way to say it from within a test
            return self.note("xfail", str(err[1]))
        first = (str(err[1]).strip().splitlines() or [""])[0]
        last = last_line("".join(traceback.format_exception_only(err[0], err[1])))
        self.trace = "".join(traceback.format_exception(*err))[-1500:]
        outcome = "fail" if issubclass(err[0], AssertionError) else "error"
        self.note(outcome, f"{err[0].__name__}: {first[:300]}" + ("" if last.endswith(first) else f" | {last}"))

    def addSuccess(self, test):
        self.note("pass")

    def addFailure(self, test, err):
        self.bad(err)

    def addError(self, test, err):
        self.bad(err)

    def addSkip(self, test, reason):
        self.note("skip", reason)

    def addExpectedFailure(self, test, err):
        self.note("xfail")

    def addUnexpectedSuccess(self, test):
        self.note("fail", "unexpected success")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.bad(err)


def load(path, mode):
    """The imported file and the names that lenient loading did without."""
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    if mode == "lenient":
        helpers = set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
        return module, sibling("lenient").load(path, module, helpers)
    spec.loader.exec_module(module)
    return module, []


def settle():
    """What PyTorch's run_tests() does before it runs anything; and an empty test, to pay for late imports."""
    settings = sys.modules.get("torch.testing._internal.common_utils")
    if hasattr(settings, "parse_cmd_line_args"):
        settings.parse_cmd_line_args()
    if hasattr(settings, "TestCase"):
        warm = type("Warm", (settings.TestCase,), {"test_nothing": lambda self: None})
        warm("test_nothing").run(unittest.TestResult())


def collect(module):
    tests = {}
    for cls in list(vars(module).values()):
        if isinstance(cls, type) and issubclass(cls, unittest.TestCase) and cls.__module__ == module.__name__:
            for method in unittest.defaultTestLoader.getTestCaseNames(cls):
                tests[f"{cls.__name__}.{method}"] = (cls, method)
    return tests


def run(cls, method):
    result, start = Result(), time.perf_counter()
    try:
        unittest.TestSuite([cls(method)]).run(result)       # a suite of one, so that setUpClass runs too
    except unittest.SkipTest as reason:
        result.note("skip", str(reason))
    except BaseException as problem:
        result.bad((type(problem), problem, problem.__traceback__))
    return {"outcome": result.outcome or "error", "detail": result.detail, "trace": result.trace,
            "seconds": round(time.perf_counter() - start, 3)}


def main(path, report_fd, mode):
    out = os.fdopen(int(report_fd), "w")
    orders, sys.stdin, sys.argv = sys.stdin, open(os.devnull), [path]

    def report(message):
        out.write(json.dumps(message, default=str) + "\n")
        out.flush()

    source = sibling("source").Source(path)
    try:
        module, missing = load(path, mode)
        settle()
        tests = collect(module)
    except BaseException:
        return report({"import_error": last_line(traceback.format_exc()), "tests": [], "missing": []})
    report({"tests": [source.describe(cls.__name__, method) for cls, method in tests.values()], "missing": missing})
    for line in iter(orders.readline, ""):
        test = tests.get(line.strip())
        report(run(*test) if test else {"outcome": "error", "detail": "listed by one worker, unknown to the next"})


if __name__ == "__main__":
    main(*sys.argv[1:])
