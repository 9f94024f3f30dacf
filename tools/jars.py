"""Fetch the jars that the tests put on Spark's class path.

    requirements/jars.txt ──► jgo (pure Python, no Maven) ──► sha256 ──► .jars/

The lock names each jar by its Maven coordinates and its hash. Only those jars
are fetched, never what they depend on: the Iceberg runtime is shaded. A jar
appears in the folder after its hash was checked and by one rename, so a run
that was stopped leaves no half of a jar behind under a jar's name.

    python tools/jars.py            fetch what is missing
    python tools/jars.py --pin      print the lock with the hashes of what is served now
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "jars.txt"
FOLDER = ROOT / ".jars"
TIMEOUT_SECONDS = 120


class JarError(Exception):
    """A jar could not be had; the message is one line."""


@dataclass(frozen=True)
class Jar:
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def read_lock(path: Path) -> list[Jar]:
    """The jars of a lock: `group:artifact:version sha256:<hex>` a line, `#` opens a comment."""
    jars = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        parts = words[0].split(":")
        if len(words) != 2 or len(parts) != 3 or not words[1].startswith("sha256:"):
            raise JarError(f"{path.name}:{number}: expected `group:artifact:version sha256:<hex>`")
        group, artifact, version = parts
        jars.append(Jar(group, artifact, version, words[1].removeprefix("sha256:")))
    return jars


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(jar: Jar, scratch: Path) -> Path:
    """Download one jar into `scratch`; its hash is not checked here."""
    # Imported late: a folder that is complete needs neither package.
    import requests
    from jgo.config import GlobalSettings
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=scratch, timeout=TIMEOUT_SECONDS)
    # A user's own jgo settings may name a mirror; it is asked first.
    context.remote_repos = {**GlobalSettings.load().repositories, **context.remote_repos}
    try:
        project = context.project(jar.group, jar.artifact)
        return project.at_version(jar.version).artifact().resolve()
    except (requests.RequestException, RuntimeError, OSError) as error:
        raise JarError(
            f"cannot fetch {jar.coordinates} ({type(error).__name__}): check the network, "
            f"or put {jar.file_name} into {FOLDER.name}/"
        ) from error


def provide(jar: Jar, folder: Path) -> bool:
    """Make sure that `folder` holds the jar with the pinned hash. True if it was fetched."""
    target = folder / jar.file_name
    if target.exists():
        if sha256_of(target) == jar.sha256:
            return False
        target.unlink()
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        fetched = fetch(jar, Path(scratch))
        found = sha256_of(fetched)
        if found != jar.sha256:
            raise JarError(f"{jar.coordinates}: sha256 is {found}, the lock says {jar.sha256}")
        fetched.replace(target)
    return True


def pin(jars: list[Jar]) -> None:
    for jar in jars:
        scratch = Path(tempfile.mkdtemp(prefix="calve-jars-"))
        try:
            print(f"{jar.coordinates} sha256:{sha256_of(fetch(jar, scratch))}")
        finally:
            shutil.rmtree(scratch)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch the test jars that requirements/jars.txt names.")
    parser.add_argument("--pin", action="store_true", help="print coordinates with the hashes served now")
    arguments = parser.parse_args()
    try:
        jars = read_lock(LOCK)
        if arguments.pin:
            pin(jars)
            return 0
        FOLDER.mkdir(exist_ok=True)
        for jar in jars:
            if provide(jar, FOLDER):
                print(f"jars: fetched {jar.file_name}")
        # What the lock no longer names would still land on Spark's class path.
        known = {jar.file_name for jar in jars}
        for stray in FOLDER.glob("*.jar"):
            if stray.name not in known:
                stray.unlink()
                print(f"jars: removed {stray.name}, which the lock does not name")
    except JarError as error:
        print(f"jars: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
