"""What the demo needs beside the package itself: PySpark, pandas, and a Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from calve.model.errors import ConfigError

JAVA_MIN = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA = (
    f"Install Java {JAVA_MIN} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless), or set "
    "JAVA_HOME to it."
)


def check_spark() -> None:
    """Say in one line what is missing."""
    missing = [name for name in ("pyspark", "pandas") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the demo runs on Spark, and there is no {' and no '.join(missing)} for this Python",
            hint="pip install 'calve[cli,spark]'.",
        )
    java = _java()
    if java is None:
        raise ConfigError("Spark runs on Java, and there is none", hint=_JAVA)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = _VERSION.search(said)
    if version is None or int(version[1]) < JAVA_MIN:
        found = "says no version" if version is None else f"is Java {version[1]}"
        raise ConfigError(f"Spark needs Java {JAVA_MIN} or newer, and {java} {found}", hint=_JAVA)


def _java() -> str | None:
    """The one that Spark takes."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")
