"""The simplifier, ranges and facts of symbolic sizes against Z3 (ORACLE=1): what Taper claims of random expressions cannot be refuted.

TAPER_SYM_CASES says how many; `make fuzz-sym` takes thousands."""
import json
import os
import pathlib
import subprocess

import pytest

import grow

HERE = pathlib.Path(__file__).parent


def judge(cases):
    done = subprocess.run([os.environ["TAPER_ORACLE"], HERE / "z3_check.py"], input=json.dumps(cases), text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not os.environ.get("TAPER_ORACLE"), reason="Z3 comes with the oracle (ORACLE=1)")
class TestAgainstZ3:
    def test_claims_hold(self):
        count, first = int(os.environ.get("TAPER_SYM_CASES", 150)), int(os.environ.get("TAPER_SYM_FIRST", 0))
        for at in range(first, first + count, 500):
            found = judge(grow.cases(at, min(500, first + count - at)))
            assert found["proved"] > 3 * found["undecided"], f"Z3 decided too little: {found['proved']}, {found['undecided']} left"
            assert not found["wrong"], json.dumps(found["wrong"][:5], indent=1)

    def test_the_judge_can_say_no(self):
        """Rounding is Python's: each of these is false for one value only."""
        claims = [["equal", ["//", "u0", -2], "-((u0//2))"], ["range", ["%", "u0", 3], 0, 1], ["known", ["!=", ["*", "u0", "u0"], 49], True],
                  ["equal", ["max", "u0", 5], "u0"], ["equal", ["%", "u0", 2], "Mod(u0, 2)"]]
        found = judge([{"seed": 0, "symbols": {"u0": [5, 7]}, "facts": [["!=", "u0", 5]], "claims": claims}])
        assert [wrong["claim"] for wrong in found["wrong"]] == claims[:1] + claims[2:3] and found["proved"] == 3
