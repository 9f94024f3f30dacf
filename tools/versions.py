"""Run the tests of the Spark pipeline on every release of PySpark that it works on.

    requirements/dev.lock ─── but its PySpark ──┐
    requirements/spark.txt ── a release each ───┴─▶ .venvs/spark-<release> ─▶ pytest tests/integration/spark

    python -m tools.versions [--prepare] [4.0.5 …]          PYTEST_ARGS are more words for pytest

The locked release runs in `.venv` itself. Iceberg's runtime exists for 4.0 and 4.1 only: on the others tables
are read back by the readers that are there. All releases are run, whatever failed before them.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools.env import DEV_LOCK, ROOT, VENV, Failed
from tools.jars import FOLDER as JARS
from tools.jars import JarError, provide, read_lock
from tools.venvs import pins, prepare

RELEASES = ROOT / "requirements" / "spark.txt"
TESTS = (
    "tests/integration/spark",
    "tests/integration/source/test_cockroachdb_files.py",
    "tests/unit/runtime/spark/test_stops.py",
)


@dataclass(frozen=True)
class Release:
    """A release of PySpark, and the lines that pin it; the locked one has none of its own."""

    version: str
    pin: str | None

    @property
    def jars_lock(self) -> Path:
        """The jars for its line, where Iceberg has a runtime for it."""
        line = ".".join(self.version.split(".")[:2])
        return ROOT / "requirements" / f"jars-{line}.txt"

    def python(self) -> Path:
        if self.pin is None:
            return VENV / "bin" / "python"
        others = "".join(block for name, block in pins(DEV_LOCK).items() if name != "pyspark")
        return prepare(f"spark-{self.version}", others + self.pin, project=True)

    def jars(self) -> Path:
        """A folder with the jars for its class path, which may be empty."""
        if self.pin is None:
            return JARS
        folder = ROOT / ".venvs" / f"jars-{self.version}"
        folder.mkdir(parents=True, exist_ok=True)
        for jar in read_lock(self.jars_lock) if self.jars_lock.exists() else ():
            provide(jar, folder)
        return folder


def main() -> int:
    known = {release.version: release for release in releases()}
    parser = argparse.ArgumentParser(description="Run the Spark tests on several releases of PySpark.")
    parser.add_argument(
        "versions", nargs="*", help=f"some of {', '.join(known)}; all of them if none is named"
    )
    parser.add_argument("--prepare", action="store_true", help="make the environments, and run nothing")
    arguments = parser.parse_args()
    strange = [version for version in arguments.versions if version not in known]
    if strange:
        parser.error(f"no release {strange[0]}: there are {', '.join(known)}")
    outcomes = {}
    for version in arguments.versions or known:
        print(f"── PySpark {version}", flush=True)
        started = time.monotonic()
        try:
            word = prepared(known[version]) if arguments.prepare else run(known[version])
        except (Failed, JarError) as error:
            print(f"versions: {error}", file=sys.stderr)
            word = "FAILED"
        outcomes[version] = f"{time.monotonic() - started:7.1f} s  {word}"
    print()
    for version, outcome in outcomes.items():
        print(f"  PySpark {version:<10}{outcome}")
    return 1 if any(outcome.endswith("FAILED") for outcome in outcomes.values()) else 0


def releases() -> list[Release]:
    """The locked release and those of requirements/spark.txt, oldest first."""
    found = [Release(_version(pins(DEV_LOCK)["pyspark"]), None)]
    found += [Release(_version(pin), pin) for pin in pins(RELEASES)["pyspark"].splitlines()]
    return sorted(found, key=lambda release: [int(part) for part in release.version.split(".")])


def prepared(release: Release) -> str:
    release.python()
    release.jars()
    return "prepared"


def run(release: Release) -> str:
    """Run the tests on a release; how it ended in a word."""
    python = str(release.python())
    environment = {
        **os.environ,
        "CALVE_TEST_JARS": str(release.jars()),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }
    command = [python, "-m", "pytest", "-q", "-m", "spark and not nightly", "-p", "no:cacheprovider", *TESTS]
    command += shlex.split(os.environ.get("PYTEST_ARGS", ""))
    ended = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return "ok" if ended.returncode == 0 else "FAILED"


def _version(pin: str) -> str:
    match = re.match(r"pyspark(?:\[[a-z,]+\])?==([0-9.]+)", pin)
    if match is None:
        raise Failed(f"expected `pyspark==<version> --hash=…`, found {pin[:60]!r}")
    return match[1]


if __name__ == "__main__":
    sys.exit(main())
