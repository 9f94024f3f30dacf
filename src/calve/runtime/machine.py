"""The machine: whether Python, packages, Java, Spark and the disk are what a sink needs.

    python ─▶ packages ─▶ disk                        what every sink needs
    java ─▶ pyspark ─▶ spark: a session starts, and a task runs in Python ─▶ kafka, iceberg: jars that it has

The session is the user's own, with the settings that Spark finds on this machine, in a process of its own:
whatever it does and says there, this one is as it was. `check_spark` says the same before a command that
needs Spark, and starts none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

import calve
from calve.model.errors import ConfigError
from calve.runtime.diagnosis import Diagnosis, Found, Outcome, skipped, tried
from calve.runtime.probe import Probed, probe

PYTHON_MIN = (3, 11)
JAVA_MIN = 17
DISK_BYTES_MIN = 2**30
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[.*?\])?\s*([^;]*)(?:;.*extra == '(\w+)')?")
_BOUND = re.compile(r"(>=|==|<)\s*([\d.]+)")
_SPARK = ("pyspark", "pandas")
_JAVA = (
    f"Install Java {JAVA_MIN} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless), or set "
    "JAVA_HOME to it."
)
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_CONNECTORS = {"4.0": "4.0.4", "4.1": "4.1.3"}
"""Releases of the connector that were tried with a later patch of Spark; elsewhere it is Spark's own."""


def look_at_machine(*, spark: bool = True, say: Callable[[str], None] = lambda _: None) -> Diagnosis:
    """Try what a sink needs of this machine; with `spark`, also Java and a session."""
    found = Diagnosis("this machine")
    found.checks = [tried("python", _python), tried("packages", _packages), tried("disk", _disk)]
    if not spark:
        return found
    needs = [tried("java", find_java), tried("pyspark", find_pyspark)]
    found.checks += needs
    if any(check.outcome is Outcome.FAILED for check in needs):
        found.checks += map(skipped, ("spark", "kafka", "iceberg"))
        return found
    say("Spark starts …")
    session = _Session()
    found.checks.append(tried("spark", session.start))
    for name, check in (("kafka", session.kafka), ("iceberg", session.iceberg)):
        found.checks.append(tried(name, check) if session.probed else skipped(name))
    return found


def check_spark() -> None:
    """Say in one line what is missing."""
    find_pyspark()
    find_java()


def find_java() -> Found:
    """The Java that Spark takes."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        where = f" in JAVA_HOME, {home}" if home else ""
        raise ConfigError(f"Spark runs on Java, and there is none{where}", hint=_JAVA)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    number = _VERSION.search(said)
    if number is None or int(number[1]) < JAVA_MIN:
        is_ = "says no version" if number is None else f"is Java {number[1]}"
        raise ConfigError(f"Spark needs Java {JAVA_MIN} or newer, and {java} {is_}", hint=_JAVA)
    return Found(f"Java {number[1]}, {java}")


def find_pyspark() -> Found:
    """PySpark, and pandas, by which it hands rows to Python."""
    missing = [name for name in _SPARK if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"Spark is needed, and there is no {' and no '.join(missing)} for this Python",
            hint="pip install 'calve[spark]'.",
        )
    return Found(_in_range(*_SPARK))


def _python() -> Found:
    if sys.version_info < PYTHON_MIN:
        raise ConfigError(
            f"calve needs Python {'.'.join(map(str, PYTHON_MIN))} or newer, and this is "
            f"{sys.version.split()[0]}",
            hint="Make the environment anew with a newer Python.",
        )
    return Found(f"Python {sys.version.split()[0]}, {sys.executable}")


def _packages() -> Found:
    """calve's own must be right. Those of an extra may be there for somebody else: then one is told of."""
    asked = list(_requirements())
    own = [one.name for one in asked if one.extra is None]
    whole = {one.extra for one in asked} - {one.extra for one in asked if one.version is None}
    words, hint = f"calve {calve.__version__}; {_in_range(*own)}", ""
    for extra in sorted(whole - {None, "spark"}, key=str):
        names = [one.name for one in asked if one.extra == extra and one.name not in own]
        try:
            words += f"; {extra}: {_in_range(*names)}" if names else ""
        except ConfigError as error:
            hint = f"The extra {extra} does not work: {error.message}. {error.hint}"
    if not asked:
        hint = "It was not installed as a package, so that nothing says which versions it needs."
    return Found(words, hint)


def _in_range(*names: str) -> str:
    """The packages with their versions; an error if one is not what calve asks for."""
    for one in _requirements():
        if one.name in names and (one.version is None or not fits(one.version, one.bounds)):
            raise ConfigError(
                f"{one.name} is {one.version or 'not installed'}, and calve needs {one.bounds}",
                hint=f"pip install '{one.name}{one.bounds}'.",
            )
    return ", ".join(f"{name} {_version(name)}" for name in sorted({*names}))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class _Requirement:
    """A package that calve asks for."""

    name: str
    bounds: str
    extra: str | None

    @property
    def version(self) -> str | None:
        return _version(self.name)


def _requirements() -> Iterator[_Requirement]:
    """None where calve runs from plain files."""
    with suppress(PackageNotFoundError):
        for line in requires("calve") or ():
            if (match := _REQUIREMENT.fullmatch(line.strip())) is not None:
                yield _Requirement(match[1], match[2].strip(), match[3])


def fits(number: str, bounds: str) -> bool:
    """Whether a version lies within bounds such as `>=4.0,<4.4` or `==0.12.*`: those that calve itself
    writes. A package that reads all of them is not always there."""
    has = _numbers(number)
    for sign, bound in _BOUND.findall(bounds):
        wants = _numbers(bound)
        right = {">=": has >= wants, "<": has < wants, "==": has[: len(wants)] == wants}
        if not right[sign]:
            return False
    return True


def _numbers(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]*", number)[0].split(".") if part)  # type: ignore[index]


def _disk() -> Found:
    """Room for what does not fit into memory: spilled rows, and what Spark puts aside."""
    folders = [tempfile.gettempdir(), *filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(","))]
    free: dict[str, int] = {}
    for folder in folders:
        try:
            with tempfile.TemporaryFile(dir=folder):
                free[folder] = shutil.disk_usage(folder).free
        except OSError as error:
            raise ConfigError(
                f"nothing can be written to {folder}: {error.strerror or error}",
                hint="Let TMPDIR (for Spark SPARK_LOCAL_DIRS) name a folder that this user may write to.",
            ) from error
    words = ", ".join(f"{room / 2**30:.1f} GiB free in {folder}" for folder, room in free.items())
    if min(free.values()) < DISK_BYTES_MIN:
        return Found(words, hint="Batches that are larger than memory need more: make room, or set TMPDIR.")
    return Found(words)


def kafka_packages(spark: str) -> str:
    """The connector for Kafka that goes with a release of Spark, as Maven names it."""
    return f"{_CONNECTOR}:{_CONNECTORS.get('.'.join(spark.split('.')[:2]), spark)}"


class _Session:
    """A session that was tried, and what it has."""

    def __init__(self) -> None:
        self.probed: Probed | None = None

    def start(self) -> Found:
        probed = probe()
        if probed.error:
            raise ConfigError(f"Spark does not work: {probed.error}", hint=probed.hint)
        self.probed = probed
        return Found(
            f"a session of Spark {probed.spark} with master {probed.master} started, and a task ran in Python"
        )

    def kafka(self) -> Found:
        assert self.probed is not None
        if self.probed.has_kafka:
            return Found("the session has the connector for Kafka")
        return Found(
            "the session has no connector for Kafka, which only sources in Kafka need",
            hint=f"Add it: spark.jars.packages={kafka_packages(self.probed.spark)}",  # no full stop: copied
        )

    def iceberg(self) -> Found:
        assert self.probed is not None
        has = "Iceberg's runtime" if self.probed.has_iceberg else "no Iceberg runtime"
        return Found(f"the session has {has}; calve needs none")
