"""Prepare `.venv`: the locked packages and the project itself, editable.

    requirements/tools.lock ──► .tools   (uv, alone in its virtual environment)
    requirements/dev.lock   ──► .venv    (everything else, then the project without dependencies)

Each folder holds a stamp with a digest of all that it was made from. When the
stamp agrees there is nothing to do, so this is quick the second time. The stamp
is written last: a run that was stopped is done again. Only the standard library
is used here, because nothing else is there yet.

    python tools/env.py            both
    python tools/env.py --tools    uv alone
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
VENV = ROOT / ".venv"
TOOLS_LOCK = ROOT / "requirements" / "tools.lock"
DEV_LOCK = ROOT / "requirements" / "dev.lock"


class Failed(Exception):
    """A step did not work; the message is one line, what the step said stands above it."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Prepare the virtual environments of this repository.")
    parser.add_argument("--tools", action="store_true", help="only .tools, which holds uv")
    arguments = parser.parse_args()
    try:
        with only_one():
            prepare_tools()
            if not arguments.tools:
                prepare_venv()
    except Failed as error:
        print(f"env: {error}", file=sys.stderr)
        return 1
    return 0


def prepare_tools() -> None:
    made_from = digest(TOOLS_LOCK)
    if stamp(TOOLS) == made_from:
        return
    print("env: preparing .tools", flush=True)
    run([sys.executable, "-m", "venv", "--clear", TOOLS])
    run([TOOLS / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--require-hashes", "--only-binary", ":all:", "--requirement", TOOLS_LOCK])  # fmt: skip
    write_stamp(TOOLS, made_from)


def prepare_venv() -> None:
    # pyproject.toml counts: it says which commands the editable project installs.
    made_from = digest(DEV_LOCK, ROOT / "pyproject.toml")
    if stamp(VENV) == made_from:
        return
    print("env: preparing .venv", flush=True)
    started = time.monotonic()
    uv: list[str | Path] = [TOOLS / "bin" / "uv", "--quiet"]
    python = VENV / "bin" / "python"
    if stamp(VENV, "-base") != base():
        run([*uv, "venv", "--clear", "--no-project", "--python", sys.executable, VENV])
        write_stamp(VENV, base(), "-base")
    (VENV / ".stamp").unlink(missing_ok=True)
    run([*uv, "pip", "sync", "--python", python, "--require-hashes", DEV_LOCK])
    # The build's own packages are in the lock, so nothing is fetched here.
    run([*uv, "pip", "install", "--python", python, "--no-deps", "--no-build-isolation", "--editable", ROOT])
    write_stamp(VENV, made_from)
    print(f"env: .venv is ready after {time.monotonic() - started:.0f} s", flush=True)


def digest(*inputs: Path) -> str:
    """What a folder is made from: locks, this script, this Python, and the place, which a copy changes."""
    sha = hashlib.sha256(base().encode())
    for path in (Path(__file__), *inputs):
        sha.update(path.read_bytes())
    return sha.hexdigest()


def base() -> str:
    return f"{sys.version}\n{sys.base_prefix}\n{ROOT}"


def stamp(folder: Path, name: str = "") -> str | None:
    """What the folder says it was made from; None where it says nothing, or its Python went away."""
    path = folder / f".stamp{name}"
    if not path.exists() or not (folder / "bin" / "python").exists():
        return None
    return path.read_text(encoding="utf-8")


def write_stamp(folder: Path, text: str, name: str = "") -> None:
    (folder / f".stamp{name}").write_text(text, encoding="utf-8")


def run(command: list[str | Path]) -> None:
    words = [str(word) for word in command]
    try:
        subprocess.run(words, check=True, cwd=ROOT, env=environment())
    except (subprocess.CalledProcessError, OSError) as error:
        step = " ".join(Path(word).name if word.startswith(str(ROOT)) else word for word in words)
        raise Failed(f"this did not work, is the network there? {step}") from error


def environment() -> dict[str, str]:
    env = {"UV_PYTHON_DOWNLOADS": "never", "UV_HTTP_TIMEOUT": "180", **os.environ}
    # uv does not read pip's settings: where pip was told of a mirror, uv is told too.
    if "PIP_INDEX_URL" in env:
        env.setdefault("UV_DEFAULT_INDEX", env["PIP_INDEX_URL"])
    # Another active environment must not shine through.
    for name in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"):
        env.pop(name, None)
    return env


@contextmanager
def only_one() -> Iterator[None]:
    """Two runs of make in one tree prepare one after the other."""
    with (ROOT / ".env.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
