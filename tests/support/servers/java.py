"""How the servers that are written in Java are started."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.servers.process import ROOT, ServerError

JARS = ROOT / ".jars"

# Quick to start, small, and no files in the machine's temporary folder.
_QUICK = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
_LOG = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def java(*words: str | Path, path: str) -> list[str]:
    """A command that runs Java with a class path."""
    return quick_java(_LOG, "-cp", path, *words)


def quick_java(*words: str | Path) -> list[str]:
    """A command that runs Java."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    return [program, *_QUICK, *map(str, words)]


def jars_of(*sets: str) -> str:
    """Sets of the jars as a class path."""
    for name in sets:
        if not any(JARS.glob(f"{name}/*.jar")):
            raise ServerError(f"the jars in .jars/{name}/ are not there: run `make jars`")
    return ":".join(str(JARS / name / "*") for name in sets)
