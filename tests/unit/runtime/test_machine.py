"""What a machine lacks is said in one line, with what to install; the doctor and the demo say the same."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from calve import ConfigError
from calve.runtime import machine
from calve.runtime.diagnosis import Diagnosis, Outcome
from calve.runtime.machine import check_spark, fits, look_at_machine
from calve.runtime.probe import Probed, probe

STARTED = Probed("4.1.4", "local[2]", has_kafka=False, has_iceberg=False)


@pytest.fixture
def java(monkeypatch, tmp_path):
    """A Java that says what it is told to say."""

    def say(said: str) -> None:
        home = tmp_path / "jdk"
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        program.write_text(f"#!/bin/sh\necho '{said}' >&2\n", "utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(home))

    return say


@pytest.fixture
def session(monkeypatch):
    """A session that has been probed; what a real one gives is shown by tests/integration/spark."""

    def give(probed: Probed) -> None:
        monkeypatch.setattr(machine, "probe", lambda: probed)

    return give


def outcomes(found: Diagnosis) -> dict[str, Outcome]:
    return {check.name: check.outcome for check in found.checks}


def said(found: Diagnosis, name: str) -> tuple[str, str]:
    (check,) = (check for check in found.checks if check.name == name)
    return check.words, check.hint


@pytest.mark.parametrize("number", ["17.0.15", "21", "25-ea"])
def test_a_java_that_spark_runs_on_is_silently_accepted(java, number):
    java(f'openjdk version "{number}" 2025-04-15')
    check_spark()


@pytest.mark.parametrize(
    "text, found",
    [
        ('java version "1.8.0_402"', "is Java 8"),
        ('openjdk version "11.0.2"', "is Java 11"),
        ("?", "says no version"),
    ],
)
def test_a_java_that_is_too_old_is_named_with_its_place(java, tmp_path, text, found):
    java(text)
    with pytest.raises(ConfigError) as raised:
        check_spark()
    assert raised.value.message == f"Spark needs Java 17 or newer, and {tmp_path}/jdk/bin/java {found}"
    assert raised.value.hint == (
        "Install Java 17 or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless), or set JAVA_HOME to "
        "it."
    )


@pytest.mark.parametrize(
    "variable, value, where", [("PATH", "", ""), ("JAVA_HOME", "/nowhere", " in JAVA_HOME, /nowhere")]
)
def test_a_machine_without_java_is_told_what_to_install(monkeypatch, variable, value, where):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError) as raised:
        check_spark()
    assert raised.value.message == f"Spark runs on Java, and there is none{where}"
    assert "openjdk-17-jre-headless" in raised.value.hint


@pytest.mark.parametrize("package", ["pyspark", "pandas"])
def test_a_python_without_spark_is_told_what_to_install(monkeypatch, package):
    monkeypatch.setattr(machine, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(ConfigError) as raised:
        check_spark()
    assert raised.value.message == f"Spark is needed, and there is no {package} for this Python"
    assert raised.value.hint == "pip install 'calve[spark]'."


@pytest.mark.parametrize(
    "number, bounds, right",
    [
        ("4.0.5", ">=4.0,<4.4", True),
        ("4.3.9", "<4.4,>=4.0", True),
        ("4.4.0", "<4.4,>=4.0", False),
        ("3.5.1", ">=4.0,<4.4", False),
        ("10.0", ">=9.1", True),
        ("0.12.3", "==0.12.*", True),
        ("0.13.0", "==0.12.*", False),
        ("4.2.0.dev1", ">=4.0,<4.4", True),
        ("26.0.1+local", ">=18", True),
        ("1.0", "", True),
    ],
)
def test_a_version_lies_within_its_bounds_or_not(number, bounds, right):
    assert fits(number, bounds) is right


def test_a_machine_that_is_well_passes_with_its_versions(java, session):
    java('openjdk version "21"')
    session(STARTED)
    told: list[str] = []
    found = look_at_machine(say=told.append)
    assert found.ok, str(found)
    assert told == ["Spark starts …"]
    assert outcomes(found) == {
        "python": Outcome.OK,
        "packages": Outcome.OK,
        "disk": Outcome.OK,
        "java": Outcome.OK,
        "pyspark": Outcome.OK,
        "spark": Outcome.OK,
        "kafka": Outcome.NOTE,
        "iceberg": Outcome.OK,
    }
    assert f"pyiceberg {version('pyiceberg')}" in said(found, "packages")[0]
    assert said(found, "pyspark") == (f"pandas {version('pandas')}, pyspark {version('pyspark')}", "")
    assert said(found, "spark") == (
        "a session of Spark 4.1.4 with master local[2] started, and a task ran in Python",
        "",
    )


@pytest.mark.parametrize(
    "spark, release", [("4.0.5", "4.0.4"), ("4.1.4", "4.1.3"), ("4.2.1", "4.2.1"), ("4.3.0", "4.3.0")]
)
def test_the_connector_for_kafka_is_named_for_the_release_of_spark(java, session, spark, release):
    java('openjdk version "21"')
    session(Probed(spark, "local[2]"))
    assert said(look_at_machine(), "kafka") == (
        "the session has no connector for Kafka, which only sources in Kafka need",
        f"Add it: spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{release}",
    )


def test_jars_that_a_session_has_are_told(java, session):
    java('openjdk version "21"')
    session(Probed("4.1.4", "local[2]", has_kafka=True, has_iceberg=True))
    found = look_at_machine()
    assert said(found, "kafka") == ("the session has the connector for Kafka", "")
    assert said(found, "iceberg") == ("the session has Iceberg's runtime; calve needs none", "")


def test_without_java_no_session_is_tried(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(machine, "probe", lambda: pytest.fail("it was tried"))
    found = look_at_machine()
    assert not found.ok
    assert outcomes(found)["java"] is Outcome.FAILED
    assert {outcomes(found)[name] for name in ("spark", "kafka", "iceberg")} == {Outcome.SKIPPED}


def test_a_session_that_does_not_start_is_told_with_its_reason(java, session):
    java('openjdk version "21"')
    session(Probed(error="it broke", hint="Mend it."))
    found = look_at_machine()
    assert said(found, "spark") == ("Spark does not work: it broke", "Mend it.")
    assert outcomes(found)["kafka"] is Outcome.SKIPPED


def test_a_sink_without_spark_needs_neither_java_nor_pyspark(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    found = look_at_machine(spark=False)
    assert found.ok
    assert list(outcomes(found)) == ["python", "packages", "disk"]


def test_a_package_of_another_version_fails_with_what_to_install(monkeypatch):
    monkeypatch.setattr(machine, "version", lambda name: "14.0.1" if name == "pyarrow" else version(name))
    found = look_at_machine(spark=False)
    assert outcomes(found)["packages"] is Outcome.FAILED
    assert said(found, "packages") == (
        "pyarrow is 14.0.1, and calve needs >=18",
        "pip install 'pyarrow>=18'.",
    )


def test_a_package_of_an_extra_may_be_there_for_somebody_else(monkeypatch):
    monkeypatch.setattr(machine, "version", lambda name: "1.9" if name == "boto3" else version(name))
    found = look_at_machine(spark=False)
    assert outcomes(found)["packages"] is Outcome.NOTE
    assert said(found, "packages")[1] == (
        "The extra aws does not work: boto3 is 1.9, and calve needs >=1.35. pip install 'boto3>=1.35'."
    )


def test_an_extra_that_is_not_installed_is_passed_over(monkeypatch):
    def absent(name: str) -> str:
        if name == "boto3":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(machine, "version", absent)
    found = look_at_machine(spark=False)
    assert found.ok
    assert "aws" not in said(found, "packages")[0]


def test_calve_as_plain_files_is_a_note(monkeypatch):
    def absent(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(machine, "requires", absent)
    found = look_at_machine(spark=False)
    assert outcomes(found)["packages"] is Outcome.NOTE
    assert machine.find_pyspark().words == f"pandas {version('pandas')}, pyspark {version('pyspark')}"


def test_a_release_of_pyspark_that_calve_was_not_made_for_is_refused(monkeypatch):
    monkeypatch.setattr(machine, "version", lambda name: "3.5.9" if name == "pyspark" else version(name))
    with pytest.raises(ConfigError) as raised:
        check_spark()
    assert raised.value.message == "pyspark is 3.5.9, and calve needs <4.4,>=4.0"
    assert raised.value.hint == "pip install 'pyspark<4.4,>=4.0'."


def test_little_room_is_a_note_and_none_to_write_in_a_failure(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "DISK_BYTES_MIN", 2**60)
    assert outcomes(look_at_machine(spark=False))["disk"] is Outcome.NOTE
    gone = tmp_path / "gone"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(gone))
    assert said(look_at_machine(spark=False), "disk") == (
        f"nothing can be written to {gone}: No such file or directory",
        "Let TMPDIR (for Spark SPARK_LOCAL_DIRS) name a folder that this user may write to.",
    )


def test_the_command_line_starts_without_spark_and_without_what_takes_long():
    """`calve --version` needs none of it, and the help comes at once."""
    heavy = ("pandas", "pyarrow", "pydantic", "pyiceberg", "pyspark", "sqlalchemy")
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from calve.cli.app import app\n"
        f"assert not {{*{heavy}}} & {{name for name, one in sys.modules.items() if one}}, 'import it later'\n"
        "sys.argv = ['calve', '--version']; app()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("calve ")


def test_the_probe_of_a_session_ends_when_it_takes_too_long(monkeypatch, tmp_path):
    """Neither the process, nor its child, as a JVM is one, nor its folder is left."""
    python, temp, held = tmp_path / "python", tmp_path / "temp", tmp_path / "held"
    temp.mkdir()
    python.write_text(f"#!/bin/sh\nsleep 600 > {held} &\nwait\n", "utf-8")
    python.chmod(0o755)
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    found = probe(seconds_max=2)
    assert found.error == "nothing came of it within 2 s"
    assert list(temp.iterdir()) == []
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # it ends when the last process that holds it is gone
    os.close(reader)


def test_a_java_that_cannot_start_spark_is_told_in_its_own_words(monkeypatch, tmp_path):
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'Error: Could not create the Java Virtual Machine.' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = probe()
    assert found == Probed(
        error="Error: Could not create the Java Virtual Machine.",
        hint="Start `pyspark` by itself: it fails in the same way, and shows all of it.",
    )
