"""Benchmarks do not rot: each runs, in a size that says nothing of speed, and tells what it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES, ON_SERVERS, ON_SPARK, PLAIN
from benchmarks.figure import Figure, at_least, at_most, report

ROOT = Path(__file__).resolve().parents[3]


def run_quick(*names: str) -> dict:
    command = [sys.executable, "-m", "benchmarks", *names, "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_every_benchmark_runs_in_a_tiny_size_and_each_figure_has_its_target():
    told = run_quick(*PLAIN)
    assert told["quick"] is True
    assert tuple(told["figures"]) == PLAIN
    for name, figures in told["figures"].items():
        assert any(figure["target"] for figure in figures), name
        assert all(figure["ours"] > 0 for figure in figures), name


@pytest.mark.nightly
@pytest.mark.servers
@pytest.mark.timeout(300)
def test_every_benchmark_on_servers_runs_in_a_tiny_size():
    told = run_quick(*ON_SERVERS)["figures"]
    assert all(figure["ours"] > 0 and figure["target"] for figures in told.values() for figure in figures)


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(ON_SPARK))
def test_every_benchmark_on_spark_runs_in_a_tiny_size(name):
    figures = run_quick(name)["figures"][name]
    assert all(figure["ours"] > 0 for figure in figures)
    # A profile only tells; all others are held against something.
    assert any(figure["target"] for figure in figures) is (name != "spark-profile")


def test_a_benchmark_that_is_not_there_is_refused_with_those_that_are():
    command = [sys.executable, "-m", "benchmarks", "speed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert all(name in done.stderr for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_is_explained_where_people_look(name):
    assert f"`{name}`" in (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "figure, met",
    [
        (Figure("a", 90, "ms", at_most(100, "ms")), True),
        (Figure("a", 110, "ms", at_most(100, "ms")), False),
        (Figure("a", 1, "ms", at_least(10), peer=12, ratio=12), True),
        (Figure("a", 1, "ms", at_least(10), peer=9, ratio=9), False),
        (Figure("a", 3, "ms", at_most(1.3), peer=2, ratio=1.5), False),
        (Figure("a", 3, "ms"), None),
    ],
)
def test_a_target_is_held_against_the_ratio_where_there_is_one(figure, met):
    assert figure.met is met
    assert figure.as_json()["met"] is met


def test_a_report_shows_figure_peer_ratio_target_and_whether_it_was_met():
    text = report([Figure("commit", 20, "ms", at_least(5), 110, "PyIceberg", 5.5, "a note")])
    for part in ("commit", "20 ms", "110 ms  PyIceberg", "5.5×", "≥ 5×", "met", "a note"):
        assert part in text
