"""An archive of the classes that a driver's JVM loads: with it, a JVM takes half the time to start.

Java reads and checks thousands of classes before the first micro-batch is done. An archive of them, as Java
itself writes it when a process ends (class data sharing), is mapped into memory instead. It fits one Java and
one PySpark, and is kept among temporary files. A JVM that finds it missing or unfit goes without it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import pyspark

from tests.nemesis.driver import JVM_OPTIONS

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def place() -> Path:
    """Where the archive of this machine's Java and PySpark is, or would be."""
    java = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    home = f"{pyspark.__version__} {Path(pyspark.__file__).parent} {JVM_OPTIONS}"
    key = hashlib.sha256(java + home.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"calve-nemesis-{os.getuid()}-{key}.jsa"


def options(archive: Path) -> str:
    """The options of a JVM that uses the archive, if it is there."""
    return f"{JVM_OPTIONS} -XX:SharedArchiveFile={archive} {_QUIET}" if archive.exists() else JVM_OPTIONS


def options_to_make(archive: Path) -> str:
    """The options of a JVM that writes the archive when it ends."""
    return f"{JVM_OPTIONS} -XX:ArchiveClassesAtExit={archive} {_QUIET}"
