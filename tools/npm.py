"""Install the servers of the tests that come from npm, into `.npm`.

    requirements/package.json ──(--lock)──► requirements/package-lock.json ──npm ci──► .npm/node_modules/

The lock has a hash for each package and names no host: which registry is asked is a setting of the machine.
No script of a package is run. The stamp is written last, so a run that was stopped is done again.

    python tools/npm.py            install what the lock names, if that is not done yet
    python tools/npm.py --lock     write the lock anew
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".npm"
PACKAGE = ROOT / "requirements" / "package.json"
LOCK = ROOT / "requirements" / "package-lock.json"
QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


class NpmError(Exception):
    """npm did not do it; the message is one line, what npm said stands above it."""


def install() -> None:
    made_from = hashlib.sha256(LOCK.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    stamp = FOLDER / ".stamp"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == made_from:
        return
    print("npm: preparing .npm", flush=True)
    FOLDER.mkdir(exist_ok=True)
    stamp.unlink(missing_ok=True)
    shutil.copy(PACKAGE, FOLDER)
    shutil.copy(LOCK, FOLDER)
    npm(FOLDER, "ci")
    stamp.write_text(made_from, encoding="utf-8")


def lock() -> None:
    with tempfile.TemporaryDirectory(prefix="calve-npm-") as scratch:
        shutil.copy(PACKAGE, scratch)
        npm(Path(scratch), "install", "--package-lock-only", "--omit-lockfile-registry-resolved")
        made: dict[str, Any] = json.loads(Path(scratch, LOCK.name).read_text(encoding="utf-8"))
    for package in made["packages"].values():
        # These two may be addresses, and the locks hold none.
        package.pop("funding", None)
        package.pop("license", None)
    LOCK.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


def npm(folder: Path, *words: str) -> None:
    try:
        subprocess.run(["npm", *words, *QUIET], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    except (subprocess.CalledProcessError, OSError) as error:
        raise NpmError(f"this did not work, is the network there? npm {' '.join(words)}") from error


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the servers of the tests that come from npm.")
    parser.add_argument("--lock", action="store_true", help="write requirements/package-lock.json anew")
    arguments = parser.parse_args()
    try:
        lock() if arguments.lock else install()
    except NpmError as error:
        print(f"npm: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
