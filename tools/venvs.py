"""Virtual environments beside `.venv`, for what must not share its packages.

    requirements/dev.lock ──some of it──▶ .venvs/<name>     stamped, so quick the second time

An executor of the tests' cluster has pyarrow alone (`executor`), or obstore beside it (`object_executor`), to
show that it needs no more. Each release
of PySpark that calve works on has everything but another PySpark (`tools/versions.py`).
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools.env import DEV_LOCK, ROOT, TOOLS, digest, only_one, prepare_tools, run, stamp, write_stamp

FOLDER = ROOT / ".venvs"
EXECUTOR_PACKAGES = ("pyarrow",)
OBJECT_PACKAGES = ("obstore", "typing-extensions")  # the second is what obstore itself needs


def executor() -> Path:
    """The Python of an executor: pyarrow as the lock has it, and nothing else."""
    return _prepare_some("executor", EXECUTOR_PACKAGES)


def object_executor() -> Path:
    """The Python of an executor that writes to object stores."""
    return _prepare_some("object-executor", (*EXECUTOR_PACKAGES, *OBJECT_PACKAGES))


def _prepare_some(name: str, packages: tuple[str, ...]) -> Path:
    blocks = pins(DEV_LOCK)
    return prepare(name, "".join(blocks[package] for package in packages))


def prepare(name: str, lock: str, *, project: bool = False) -> Path:
    """The Python of an environment with the packages of a lock's text, and with the project if asked."""
    folder = FOLDER / name
    python = folder / "bin" / "python"
    inputs = [ROOT / "pyproject.toml"] if project else []
    made_from = hashlib.sha256((digest(Path(__file__), *inputs) + lock).encode()).hexdigest()
    with only_one():
        if stamp(folder) == made_from:
            return python
        print(f"env: preparing {folder.relative_to(ROOT)}", flush=True)
        started = time.monotonic()
        prepare_tools()
        uv: list[str | Path] = [TOOLS / "bin" / "uv", "--quiet"]
        run([*uv, "venv", "--clear", "--no-project", "--python", sys.executable, folder])
        wanted = folder / "requirements.txt"
        wanted.write_text(lock, encoding="utf-8")
        run([*uv, "pip", "sync", "--python", python, "--require-hashes", wanted])
        if project:
            run([*uv, "pip", "install", "--python", python, "--no-deps", "--no-build-isolation",
                 "--editable", ROOT])  # fmt: skip
        write_stamp(folder, made_from)
        print(f"env: {name} is ready after {time.monotonic() - started:.0f} s", flush=True)
    return python


def pins(lock: Path) -> dict[str, str]:
    """The lines of a lock by package: the pin, its hashes, its comments."""
    blocks: dict[str, str] = {}
    for name, block in _blocks(lock.read_text(encoding="utf-8")):
        blocks[name] = blocks.get(name, "") + block  # a package may have a pin for each Python
    return blocks


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    for block in re.split(r"(?m)^(?=[A-Za-z0-9])", text)[1:]:
        yield re.split(r"[=\[ ;@]", block, maxsplit=1)[0].lower(), block
