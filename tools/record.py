"""Pictures of a terminal for the documentation: `python -m tools.record [name …]`, or `make pictures`.

    tools/pictures.toml ──command──▶ a pty of 80 columns ──bytes──▶ pyte, a screen ──▶ an SVG, light and dark
                        └─before───▶ what must be there first, and is not shown

The same output gives the same bytes. A command that ends otherwise than it should has no picture.

Not here: how a screen is drawn (terminal_svg.py), what commands print (src/calve/cli).
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import os
import pty
import select
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyte

from tools.terminal_svg import PALETTES, picture

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "tools" / "pictures.toml"
FOLDER = ROOT / "docs" / "assets" / "terminal"
SCENE = ROOT / "tools" / "scene.py"
"""What pictures show: a shop, its pipeline and its table."""
COLUMNS = 80
LINES_MAX = 200
SECONDS_MAX = 600

# ---------------------------------------------------------------- a command in a terminal


class Screen(pyte.Screen):
    """pyte knows no faint text, and nobody blinks: a cell that blinks is faint here."""

    def select_graphic_rendition(self, *attrs: int, **private: bool) -> None:
        super().select_graphic_rendition(*_with_faint(attrs), **private)


def _with_faint(attrs: tuple[int, ...]) -> tuple[int, ...]:
    told: list[int] = []
    rest = list(attrs)
    while rest:
        one = rest.pop(0)
        if one in (38, 48):  # a colour follows: `5;n` or `2;r;g;b`, and its 2 is not faint
            many = {5: 2, 2: 4}.get(rest[0] if rest else 0, 0)
            told += [one, *rest[:many]]
            del rest[:many]
        else:
            told += {2: [5], 22: [22, 25]}.get(one, [one])
    return tuple(told)


def run(command: str, *, columns: int = COLUMNS, before: str = "", exit_code: int = 0) -> Screen:
    """What a terminal shows when a command has ended. Another exit code than the one it should have is an
    error. `before`: lines for a shell, in the same folder."""
    screen = Screen(columns, LINES_MAX)
    stream = pyte.ByteStream(screen)
    stream.feed(f"\x1b[90m$\x1b[0m \x1b[1m{command}\x1b[0m\r\n".encode())
    with tempfile.TemporaryDirectory() as folder:
        if before:
            shell = ["bash", "-euo", "pipefail", "-c", before]
            subprocess.run(shell, cwd=folder, env=_environment(folder), check=True, stdout=sys.stderr)
        for piece in _output(command, columns, folder, exit_code):
            stream.feed(piece)
    return screen


def _output(command: str, columns: int, folder: str, exit_code: int) -> Iterator[bytes]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES_MAX, columns, 0, 0))
    child = subprocess.Popen(
        shlex.split(command), stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=_environment(folder)
    )
    os.close(theirs)
    until = time.monotonic() + SECONDS_MAX
    try:
        while piece := _read(ours, until):
            yield piece
        if child.wait() != exit_code:
            raise SystemExit(f"{command!r} ended with {child.returncode}, not {exit_code}")
    finally:
        os.close(ours)
        child.kill()
        child.wait()


def _read(terminal: int, until: float) -> bytes:
    """What came; nothing at the end."""
    if not select.select([terminal], [], [], max(0.0, until - time.monotonic()))[0]:
        raise SystemExit(f"nothing came for {SECONDS_MAX} seconds")
    try:
        return os.read(terminal, 65536)
    except OSError as error:  # Linux says so when the other side of a pty is closed
        if error.errno != errno.EIO:
            raise
        return b""


def _environment(folder: str) -> dict[str, str]:
    """A plain terminal with colours, and the commands of this environment first."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    plain = {"LANG": "C.UTF-8", "TERM": "xterm-256color", "PATH": path, "TMPDIR": folder}
    return kept | plain | {"PYSPARK_PYTHON": sys.executable, "SCENE": str(SCENE)}


# ---------------------------------------------------------------- the list of pictures


def record(name: str, asked: Mapping[str, Any], folder: Path = FOLDER) -> list[Path]:
    """Run a command, and write its pictures."""
    command = str(asked["command"])
    screen = run(
        command,
        columns=int(asked.get("columns", COLUMNS)),
        before=str(asked.get("before", "")),
        exit_code=int(asked.get("exit_code", 0)),
    )
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for palette in PALETTES:
        file = folder / f"{name}-{palette.name}.svg"
        file.write_text(picture(screen, palette, command), "utf-8")
        written.append(file)
    return written


def main() -> None:
    known: dict[str, dict[str, Any]] = tomllib.loads(PICTURES.read_text("utf-8"))
    parser = argparse.ArgumentParser(description="Record pictures of a terminal for the documentation.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(known))
    for name in parser.parse_args().names or known:
        if name not in known:
            raise SystemExit(
                f"no picture {name!r} in {PICTURES.relative_to(ROOT)}; there are {', '.join(known)}"
            )
        for file in record(name, known[name]):
            print(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
