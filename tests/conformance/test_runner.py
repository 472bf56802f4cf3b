"""The runner on files of known outcome: each kind of outcome, lenient loading, the ratchet, the page, absent files."""
import json
import os
import subprocess
import sys

import pytest

import places

HERE = os.path.dirname(os.path.realpath(__file__))
CANARY = os.path.join(HERE, "canary")


def run(*arguments, **env):
    command = [sys.executable, os.path.join(HERE, "run.py"), "--seeds", CANARY, "--timeout", "2", *arguments]
    env = {**{name: value for name, value in os.environ.items() if name not in ("CI", "SEEDS")}, **env}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """What a run of the canary wrote, plain Python standing in for a provider."""
    out = tmp_path_factory.mktemp("conformance") / "out.json"
    code, text = run("--provider", "torch", "--json", str(out), "test_canary.py")
    assert code == 0, text
    return {"text": text, **json.loads(out.read_text())[0]}


def test_every_outcome_is_what_the_name_says(record):
    wrong = {name: (test["outcome"], test["detail"]) for name, test in record["instances"].items()
             if not name.endswith("_" + test["outcome"])}
    assert not wrong
    assert len(record["instances"]) == 22


def test_all_outcomes_occur(record):
    assert {test["outcome"] for test in record["instances"].values()} == {
        "pass", "fail", "error", "skip", "xfail", "crash", "timeout"}


def test_details_say_why(record):
    detail = {name.split(".")[1]: test["detail"] for name, test in record["instances"].items()}
    assert detail["test_one_error"] == "RuntimeError: first line | last line"
    assert "SIGABRT" in detail["test_one_crash"]
    assert "exit code 3" in detail["test_exit_crash"]
    assert detail["test_name_error"] == "MissingName: not provided: canary_helper.not_there"
    assert detail["test_module_error"].endswith("not provided: torch_that_is_not_there")
    assert "torch_that_is_not_there.flag" in detail["test_branch_error"]


def test_lenient_loading_is_reported(record):
    assert "torch_that_is_not_there" in record["strict_error"]
    assert "canary_helper.not_there" in record["missing"]
    assert record["text"].rstrip().endswith("7 passed, 14 failed, 1 skipped")


def test_files_are_found_in_a_checkout(tmp_path):
    for place in ("test_modules.py", "dynamo/test_modules.py", "test_other.py"):
        path = tmp_path / "test" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    top = os.path.realpath(tmp_path / "test")
    found = places.find(str(tmp_path), "test_modules.py")
    assert found == os.path.join(top, "dynamo", "test_modules.py") == places.find(top, "test_modules.py")
    assert places.import_folders(found)[:2] == [os.path.join(top, "dynamo"), top]
    assert places.find(str(tmp_path), "test_other.py") == os.path.join(top, "test_other.py")
    assert places.find("", "test_modules.py") is None


def test_only_selects():
    code, text = run("--provider", "torch", "--only", "test_one_(pass|skip)$", "test_canary.py")
    assert code == 0 and text.rstrip().endswith("1 passed, 0 failed, 1 skipped"), text


class TestRatchet:
    """On the provider `taper` the lists and the page count; --prefix lets plain Python stand in."""

    @pytest.fixture
    def ratchet(self, tmp_path):
        def go(*arguments):
            return run("--provider", "taper", "--prefix", "{python}", "--passing", str(tmp_path / "passing"), "--page",
                       str(tmp_path / "page.md"), "--only", "pass$|_fail$", *arguments)
        go.list = tmp_path / "passing" / "test_canary.txt"
        return go

    def test_update_lists_what_passes(self, ratchet):
        code, text = ratchet("--update", "test_canary.py")
        assert code == 0, text
        lines = ratchet.list.read_text().splitlines()
        assert "test_canary.py: TestOutcomes.test_one_pass" in lines
        assert len(lines) == 5 and not any("fail" in line for line in lines)

    def test_a_listed_test_that_fails_is_a_regression(self, ratchet):
        ratchet.list.parent.mkdir()
        ratchet.list.write_text("".join(f"test_canary.py: TestOutcomes.{name}\n" for name in (
            "test_one_fail", "test_gone_pass", "test_left_out")))
        code, text = ratchet("test_canary.py")
        assert code == 1
        assert "REGRESSION test_canary.py: TestOutcomes.test_one_fail: fail: AssertionError: 1 != 2" in text
        assert "REGRESSION test_canary.py: TestOutcomes.test_gone_pass: the test was not collected" in text
        assert "test_left_out" not in text

    def test_update_never_removes(self, ratchet):
        ratchet.list.parent.mkdir()
        ratchet.list.write_text("test_canary.py: TestOutcomes.test_one_fail\n")
        code, _ = ratchet("--update", "test_canary.py")
        assert code == 1
        assert "test_canary.py: TestOutcomes.test_one_fail" in ratchet.list.read_text().splitlines()

    def test_a_lost_strict_import_is_a_regression(self, ratchet):
        ratchet.list.parent.mkdir()
        ratchet.list.write_text("test_canary.py: import\n")
        code, text = ratchet("test_canary.py")
        assert code == 1 and "REGRESSION test_canary.py: import: " in text


def test_page_and_strict_import(tmp_path):
    page, passing = tmp_path / "docs" / "page.md", tmp_path / "passing"
    arguments = ["--provider", "taper", "--prefix", "{python}", "--update", "--page", str(page),
                 "--passing", str(passing)]
    assert run(*arguments, "test_whole.py")[0] == 0
    assert (passing / "test_whole.txt").read_text().splitlines() == [
        "test_whole.py: TestWhole.test_other_pass", "test_whole.py: TestWhole.test_pass", "test_whole.py: import"]
    first = page.read_text()
    assert "| test_whole.py | yes | 2 | 2 | 2 | 2 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |" in first
    assert run(*arguments, "test_whole.py")[0] == 0
    assert page.read_text() == first


def test_provider_that_does_not_start():
    code, text = run("--provider", "torch", "--prefix", "{python} -m no_such_provider", "test_whole.py")
    assert code == 0 and "does not import" in text
    assert text.rstrip().endswith("0 passed, 2 failed, 0 skipped")


def test_absent_files_are_skipped_except_in_ci():
    code, text = run("--provider", "torch", "test_no_such_file.py")
    assert code == 0 and "skipped: test_no_such_file.py not found" in text
    assert run("--provider", "torch", "test_no_such_file.py", CI="true")[0] == 1
