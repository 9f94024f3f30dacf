"""Run the checks of this repository and say how long each took against its budget.

    python tools/check.py [--coverage] [--nightly] all | lint types layers unit simulation …

Every test belongs to exactly one group, by its markers. Each group is a process
of its own, because a process holds one Spark session and Sail's client cannot
share it with Spark. A group without a test is passed over; a run without any
test fails. All checks run, whatever failed before them, so that one run tells all.

    lane 1   spark ───────────────────────────┬─▶ docs ──▶ …      the longest first,
    lane 2   lint, types, layers ─▶ unit ─▶ servers ─▶ engines      then whoever is next

Groups that wait for servers and sessions leave half of the machine to others. So two
run at a time, and what a group says is printed as a whole when it ends. LANES=1 runs
one after the other and prints as it comes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COVERAGE_PERCENT_MIN = 90
NOTHING_COLLECTED = 5  # pytest's exit code

# A test with two markers belongs to the first of these.
MARKERS = ("docs", "servers", "spark", "engines", "simulation")
GROUPS = ("unit", "simulation", "spark", "engines", "servers", "docs")
QUICK = "lint, types, unit and simulation"
# Of the groups as they are beside one another; and of all of them, which is what a person waits for.
BUDGET_SECONDS = {QUICK: 480, "spark": 1200, "engines": 180, "servers": 620, "docs": 480}
ALL_SECONDS = 1440


_PRINTS = threading.Lock()


@dataclass(frozen=True)
class Outcome:
    """How one step ended."""

    step: str
    seconds: float
    code: int

    @property
    def budget(self) -> str:
        return self.step if self.step in BUDGET_SECONDS else QUICK

    @property
    def word(self) -> str:
        return {0: "ok", NOTHING_COLLECTED: "no test"}.get(self.code, "FAILED")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the checks of this repository.")
    steps = ("all", "lint", "types", "layers", *GROUPS, "coverage")
    parser.add_argument("steps", nargs="+", choices=steps, metavar="step", help=", ".join(steps))
    parser.add_argument("--coverage", action="store_true", help="measure branch coverage over all groups")
    parser.add_argument("--nightly", action="store_true", help="the tests that are too long for every day")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    started = time.monotonic()
    outcomes = run_steps(expand(arguments.steps, arguments.nightly), arguments.coverage, arguments.nightly)
    return report(outcomes, time.monotonic() - started)


def expand(steps: list[str], nightly: bool) -> list[str]:
    if "all" not in steps:
        return steps
    # Unit tests and simulation share their processes; each has a target of its own beside.
    groups = ["unit+simulation", "servers", "docs", "engines"]
    return [*groups, "spark"] if nightly else ["spark", "lint", "types", "layers", *groups]


def run_steps(steps: list[str], coverage: bool, nightly: bool) -> list[Outcome]:
    if coverage:
        subprocess.run([sys.executable, "-m", "coverage", "erase"], check=True)
    # Nightly tests count on the machine being theirs.
    lanes = 1 if nightly or len(steps) == 1 else int(os.environ.get("LANES", "2"))
    with ThreadPoolExecutor(lanes) as pool:
        outcomes = list(pool.map(lambda step: run_step(step, coverage, nightly, lanes > 1), steps))
    if coverage:
        outcomes.append(run_step("coverage", coverage, nightly, at_its_end=False))
    return outcomes


def run_step(step: str, coverage: bool, nightly: bool, at_its_end: bool) -> Outcome:
    """Run a step. `at_its_end`: what it says is printed when all is said, not in between what others say."""
    print(f"── {step}{' begins' if at_its_end else ''}", flush=True)
    started, code = time.monotonic(), 0
    with tempfile.TemporaryFile() as said:
        for command in commands(step, coverage, nightly):
            if code == 0:
                out, err = (said, subprocess.STDOUT) if at_its_end else (None, None)
                code = subprocess.run(
                    command, env=environment(), stdout=out, stderr=err, check=False
                ).returncode
        outcome = Outcome(step, time.monotonic() - started, code)
        said.seek(0)
        if at_its_end:
            with _PRINTS:
                print(f"── {step}: {outcome.word} after {outcome.seconds:.0f} s", flush=True)
                sys.stdout.buffer.write(said.read())
                sys.stdout.flush()
    return outcome


def commands(step: str, coverage: bool, nightly: bool) -> list[list[str]]:
    python = [sys.executable, "-m"]
    if step == "lint":
        ruff = [*python, "ruff"]
        return [[*ruff, "check", "--quiet", "."], [*ruff, "format", "--quiet", "--check", "."]]
    if step == "types":
        return [[*python, "mypy", *filter(holds_code, ("src", "tools", "tests", "benchmarks"))]]
    if step == "layers":
        call = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_logo=True))"
        return [[sys.executable, "-c", call]]
    if step == "coverage":
        return [
            [*python, "coverage", "combine", "--quiet"],
            [*python, "coverage", "report", f"--fail-under={COVERAGE_PERCENT_MIN}"],
        ]
    return [pytest(step, coverage, nightly)]


def pytest(group: str, coverage: bool, nightly: bool) -> list[str]:
    command = [sys.executable, "-m", "coverage", "run", "-m"] if coverage else [sys.executable, "-m"]
    command += ["pytest", "-q", "-m", f"({expression(group)}) and {'' if nightly else 'not '}nightly"]
    if expression(group) == expression("unit+simulation") or group in ("unit", "simulation"):
        command += ["-n", os.environ.get("JOBS", "2"), "--dist", "worksteal"]
    elif group in ("spark", "servers"):
        # A session or a server a process; tests wait for processes, for files and for one another half of the
        # time.
        command += ["-n", os.environ.get("JOBS", "2"), "--dist", "loadfile"]
    if nightly:
        command += ["--timeout", "3600"]
    return command + shlex.split(os.environ.get("PYTEST_ARGS", "")) + files_of(group)


def files_of(group: str) -> list[str]:
    """The files that may have tests of a group: those that spell its marker, and the conformance suite, whose
    parameters bring it; tests/conftest.py sees to that. To import all others takes a process fifteen seconds,
    and a group has up to three of them."""
    if group not in MARKERS or group == "simulation":
        return []
    files = sorted(Path("tests").rglob("test_*.py"))
    return [
        str(file)
        for file in files
        if "conformance" in file.parts or f"mark.{group}" in file.read_text("utf-8")
    ]


def expression(group: str) -> str:
    """The marker expression of a group: its own marker, and none that goes before it."""
    if group == "unit+simulation":
        return " and ".join(f"not {marker}" for marker in MARKERS[:-1])
    if group == "unit":
        return " and ".join(f"not {marker}" for marker in MARKERS)
    before = MARKERS[: MARKERS.index(group)]
    return " and ".join([group, *(f"not {marker}" for marker in before)])


def holds_code(folder: str) -> bool:
    return any(Path(folder).rglob("*.py"))


def environment() -> dict[str, str]:
    # Spark starts its Python workers with `python3` from the path unless it is told.
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def report(outcomes: list[Outcome], elapsed: float) -> int:
    print()
    for outcome in outcomes:
        print(f"  {outcome.step:<18}{outcome.seconds:7.1f} s  {outcome.word}")
    for budget, seconds in BUDGET_SECONDS.items():
        ours = [outcome for outcome in outcomes if outcome.budget == budget and outcome.step != "coverage"]
        if ours:
            took = sum(outcome.seconds for outcome in ours)
            over = "  OVER ITS BUDGET" if took > seconds else ""
            print(f"  budget of {budget}: {took:.0f} of {seconds} s{over}")
    if len(outcomes) > len(BUDGET_SECONDS):
        over = "  OVER ITS BUDGET" if elapsed > ALL_SECONDS else ""
        print(f"  budget of all: {elapsed:.0f} of {ALL_SECONDS} s{over}")
    failed = [outcome.step for outcome in outcomes if outcome.word == "FAILED"]
    tests = [outcome for outcome in outcomes if outcome.step not in ("lint", "types", "layers", "coverage")]
    if tests and all(outcome.code == NOTHING_COLLECTED for outcome in tests):
        failed.append("no test was run")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
