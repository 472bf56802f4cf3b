"""Graphs that tell in which order layers act, compared with those that PyTorch records (dispatch_cases.json)."""
import json
import os
import subprocess

import pytest

import taper

import dispatch_cases

HERE = os.path.dirname(os.path.realpath(__file__))
with open(os.path.join(HERE, "dispatch_cases.json")) as f:
    RECORDED = json.load(f)


@pytest.fixture(scope="module")
def made():
    return dispatch_cases.cases(taper)


def test_the_cases_are_those_recorded(made):
    assert list(made) == list(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_graph(name, made):
    assert made[name] == RECORDED[name]


@pytest.mark.skipif(not os.environ.get("TAPER_ORACLE"), reason="TAPER_ORACLE names no Python with PyTorch")
def test_the_record_is_what_pytorch_gives_today():
    ran = subprocess.run([os.environ["TAPER_ORACLE"], os.path.join(HERE, "dispatch_cases.py")], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == RECORDED
