"""A terminal that a test types at: a process on a pty of 80 columns, and the screen that a person would see.

    test ──type, press──▶ pty ──▶ process
         ◀──until, shown── pyte ◀──┘

Nothing sleeps: `until` reads what comes, and ends when the screen shows what is waited for.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

COLUMNS, LINES = 80, 50
CTRL_C, CTRL_D, ENTER, TAB, UP, BACKSPACE = "\x03", "\x04", "\r", "\t", "\x1b[A", "\x7f"


class _Screen(pyte.HistoryScreen):
    """Answers what a program asks a terminal for, such as the place of the cursor."""

    answer: Callable[[str], None] = staticmethod(lambda _: None)

    def write_process_input(self, data: str) -> None:
        self.answer(data)


class Terminal:
    """A process at a terminal."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        env: Mapping[str, str] | None = None,
        *,
        seconds_max: float = 120.0,
    ) -> None:
        self.raw = b""
        """All that was written, colours and all."""
        self._seconds_max = seconds_max
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.screen = _Screen(COLUMNS, LINES, history=2000, ratio=0.5)
        self.screen.answer = lambda text: self.type(text)
        self._stream = pyte.ByteStream(self.screen)
        dropped = ("CALVE_DEBUG", "COLUMNS", "LINES", "NO_COLOR")
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        self.process = subprocess.Popen(
            list(words),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})},
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)

    @classmethod
    def calve(cls, *words: str, folder: Path, env: Mapping[str, str] | None = None) -> Self:
        return cls([sys.executable, "-m", "calve.cli.main", *words], folder, env)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)

    @property
    def shown(self) -> str:
        """What a person sees, with what has scrolled away."""
        gone = ["".join(line[n].data for n in range(COLUMNS)) for line in self.screen.history.top]
        lines = [line.rstrip() for line in (*gone, *self.screen.display)]
        return "\n".join(lines).rstrip() + "\n"

    def type(self, text: str) -> None:
        """Keys, one after the other."""
        data = text.encode()
        while data:
            data = data[os.write(self._ours, data) :]

    def line(self, text: str) -> None:
        self.type(text + ENTER)

    def until(self, text: str, *, times: int = 1) -> str:
        """Read until the screen shows a text, so often."""
        return self._until(lambda: self.shown.count(text) >= times, text)

    def ready(self, prompt: str) -> None:
        """Read until the last line is a prompt, and nothing else: what is typed now meets it."""
        self._until(lambda: self.shown.splitlines()[-1:] == [prompt], prompt)

    def ended(self) -> int:
        """Read until the process ends; its exit code."""
        until = time.monotonic() + self._seconds_max
        while self._read(until):
            pass
        return self.process.wait(self._seconds_max)

    def _until(self, is_there: Callable[[], bool], what: str) -> str:
        until = time.monotonic() + self._seconds_max
        while not is_there():
            if not self._read(until):
                raise AssertionError(f"it ended, and never showed {what!r}:\n{self.shown}")
        return self.shown

    def _read(self, until: float) -> bool:
        if not select.select([self._ours], [], [], max(0.0, until - time.monotonic()))[0]:
            raise AssertionError(f"nothing more came in {self._seconds_max:.0f} s:\n{self.shown}")
        try:
            piece = os.read(self._ours, 65536)
        except OSError as error:  # Linux says so when the other side of a pty is closed
            if error.errno != errno.EIO:
                raise
            return False
        self.raw += piece
        self._stream.feed(piece)
        return bool(piece)


def _take_terminal() -> None:
    """The pty is the process's own: Ctrl-C is a signal to its group."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
