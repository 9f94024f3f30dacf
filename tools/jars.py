"""Fetch the jars that the tests need.

    requirements/jars*.txt ─► jgo (pure Python, no Maven) ──► sha256 ──┬► .jars/        Spark's class path
                                                                       └► .jars/<set>/  a server's

The lock names each jar by its Maven coordinates and its hash. A line `[rest]`
opens a set: its jars have a folder of their own, which Spark does not see. Only
those jars are fetched, never what they depend on. A jar appears in its folder
after its hash was checked and by one rename, so a run that was stopped leaves
no half of a jar behind under a jar's name. What only tests of the night need
stands in a lock of its own, and may be packed: `tar.gz` in the place of `jar`.

    python tools/jars.py            fetch what is missing
    python tools/jars.py --nightly  and what requirements/jars-nightly.txt names
    python tools/jars.py --pin      print the lock with the hashes of what is served now
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "jars.txt"
NIGHTLY = ROOT / "requirements" / "jars-nightly.txt"
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
    classifier: str = ""
    set_name: str = ""
    packaging: str = "jar"

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}" + (
            self.classifier and f":{self.packaging}:{self.classifier}"
        )

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}" + (
            (self.classifier and f"-{self.classifier}") + f".{self.packaging}"
        )


_SET = re.compile(r"\[([a-z0-9-]+)\]")
_JAR = re.compile(r"([^:\s]+):([^:\s]+):([^:\s]+)(?::(jar|tar\.gz):([^:\s]+))?\s+sha256:(\S+)")


def read_lock(path: Path) -> list[Jar]:
    """The jars of a lock: `group:artifact:version[:jar:classifier] sha256:<hex>`; `#` opens a comment, and
    `tar.gz` may stand in the place of `jar`."""
    jars = []
    set_name = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.partition("#")[0].strip()
        if opened := _SET.fullmatch(words):
            set_name = opened[1]
        elif jar := _JAR.fullmatch(words):
            group, artifact, version, packaging, classifier, sha256 = jar.groups(default="")
            jars.append(
                Jar(group, artifact, version, sha256, classifier, set_name, packaging=packaging or "jar")
            )
        elif words:
            raise JarError(f"{path.name}:{number}: expected `group:artifact:version sha256:<hex>`")
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
        one = project.at_version(jar.version).artifact(classifier=jar.classifier, packaging=jar.packaging)
        return one.resolve()
    except (requests.RequestException, RuntimeError, OSError) as error:
        raise JarError(
            f"cannot fetch {jar.coordinates} ({type(error).__name__}): check the network, "
            f"or put {jar.file_name} into {(FOLDER / jar.set_name).relative_to(ROOT)}/"
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
    opened = ""
    for jar in jars:
        if jar.set_name != opened:
            opened = jar.set_name
            print(f"[{opened}]")
        scratch = Path(tempfile.mkdtemp(prefix="calve-jars-"))
        try:
            print(f"{jar.coordinates} sha256:{sha256_of(fetch(jar, scratch))}")
        finally:
            shutil.rmtree(scratch)


def provide_all(jars: list[Jar]) -> None:
    """Every jar in the folder of its set, and none there that the lock does not name."""
    for set_name in {"": None} | dict.fromkeys(jar.set_name for jar in jars):
        folder = FOLDER / set_name
        folder.mkdir(exist_ok=True)
        ours = [jar for jar in jars if jar.set_name == set_name]
        for jar in ours:
            if provide(jar, folder):
                print(f"jars: fetched {jar.file_name}", flush=True)
        # What the lock no longer names would still land on a class path.
        known = {jar.file_name for jar in ours}
        for stray in [*folder.glob("*.jar"), *folder.glob("*.tar.gz")]:
            if stray.name not in known:
                stray.unlink()
                print(f"jars: removed {stray.name}, which the lock does not name")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch the test jars that requirements/jars.txt names.")
    parser.add_argument("--nightly", action="store_true", help="also what only tests of the night need")
    parser.add_argument("--pin", action="store_true", help="print coordinates with the hashes served now")
    arguments = parser.parse_args()
    try:
        jars = read_lock(LOCK) + (read_lock(NIGHTLY) if arguments.nightly else [])
        if arguments.pin:
            pin(jars)
            return 0
        provide_all(jars)
    except JarError as error:
        print(f"jars: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
