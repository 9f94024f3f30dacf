"""What is missing is said in one line, with what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from calve import ConfigError
from calve.cli.needs import check_spark


@pytest.fixture
def java(monkeypatch, tmp_path):
    """A Java that says what it is told to say."""

    def say(version: str) -> None:
        home = tmp_path / "jdk"
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        program.write_text(f"#!/bin/sh\necho '{version}' >&2\n", "utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(home))

    return say


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_that_spark_runs_on_is_silently_accepted(java, version):
    java(f'openjdk version "{version}" 2025-04-15')
    check_spark()


@pytest.mark.parametrize(
    "said, found",
    [('java version "1.8.0_402"', "is Java 8"), ('openjdk version "11.0.2"', "is Java 11"), ("?", "says no")],
)
def test_a_java_that_is_too_old_is_named_with_its_place(java, said, found):
    java(said)
    with pytest.raises(ConfigError, match=found) as raised:
        check_spark()
    assert "jdk/bin/java" in raised.value.message
    assert "Install Java 17 or newer" in raised.value.hint


@pytest.mark.parametrize("variable, value", [("PATH", ""), ("JAVA_HOME", "/nowhere")])
def test_a_machine_without_java_is_told_what_to_install(monkeypatch, variable, value):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match="there is none") as raised:
        check_spark()
    assert "openjdk-17-jre-headless" in raised.value.hint


@pytest.mark.parametrize("package", ["pyspark", "pandas"])
def test_a_python_without_spark_is_told_what_to_install(monkeypatch, package):
    monkeypatch.setattr("calve.cli.needs.find_spec", lambda name: None if name == package else object())
    with pytest.raises(ConfigError, match=f"no {package}") as raised:
        check_spark()
    assert "calve[cli,spark]" in raised.value.hint


def test_the_command_line_starts_without_spark():
    """`calve --version` needs none."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import calve.cli.app\n"
        "sys.argv = ['calve', '--version']; calve.cli.app.app()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("calve ")
