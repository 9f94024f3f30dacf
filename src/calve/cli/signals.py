"""Signals: Ctrl-C and SIGTERM end a command at any moment, in one line.

    imports ──at_once──▶ one line, and the process is gone: nothing was begun
    a command ──in_order──▶ KeyboardInterrupt or Terminated: what is open is closed on the way out
              ──again────▶ at once

An import is not left by an exception: modules in the middle of their own may take it for something else. The
exit code is 128 and the number of the signal, as shells have it. A signal that was ignored from the start
(nohup, a background job) stays ignored.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

SAID = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


_OURS: list[bool] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM came. Libraries tidy up at a KeyboardInterrupt and know no other: Py4J gives up the connection
    whose answer is still to come, on which what closes the session would wait without end."""


def at_once() -> None:
    """From now on a signal ends the process where it stands."""
    _take(_end)


def in_order() -> None:
    """From now on the first signal ends the command, and a second one the process; also when Spark starts."""
    _take(_raise)
    if not _OURS:
        _OURS.append(True)
        signal.signal = _without_sparks(signal.signal)


def no_more_patience() -> None:
    """From now on a signal ends the process where it stands, if signals are ours: a test has its own."""
    if _OURS:
        at_once()


def patience() -> None:
    """A command goes on after a signal: the next one is a first one again."""
    if _OURS:
        _take(_raise)


def line(number: int) -> str:
    """What is said at the end."""
    return f"calve: stopped by {SAID[signal.Signals(number)]}"


def exit_code(number: int) -> int:
    return 128 + number


def _take(handler: signal._HANDLER) -> None:
    for number in SAID:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _without_sparks(set_handler: Callable[..., Any]) -> Callable[..., Any]:
    """`signal.signal`, except that PySpark may not take Ctrl-C for itself, as it does when a session starts.
    Its handler calls the JVM by the connection that the signal met, in the middle of a call: what comes of it
    is an error of Python's buffers, and no KeyboardInterrupt."""

    def set_(number: int, handler: Any) -> Any:
        if number in SAID and str(getattr(handler, "__module__", "")).startswith("pyspark"):
            return signal.getsignal(number)
        return set_handler(number, handler)

    return set_


def _end(number: int, _: FrameType | None) -> NoReturn:
    os.write(2, f"{line(number)}\n".encode())
    os._exit(exit_code(number))


def _raise(number: int, _: FrameType | None) -> NoReturn:
    at_once()
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated
