"""The life of a sink: which calls are in order, one at a time, and when the run is over.

    created ──open──▶ open ──close──▶ closed
                       │ Fenced, TableError
                       ▼
                     failed ──close──▶ closed

A call out of its order is refused and changes nothing. So is a call that comes while another one runs, from
another thread or from a signal handler: two threads that commit would fence one another, and rows that
arrive together have no order. The lock is tried and never waited for: who waits has a defect, and would
hide it.

What the table shows does not change by trying again: after `Fenced` and every error of the table, each call
raises the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import wraps
from threading import Lock, current_thread
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from calve.model.errors import CalveError, Fenced, SinkState, TableError


class State(Enum):
    """Where a sink is in its life."""

    CREATED = "created"
    OPEN = "open"
    FAILED = "failed"
    CLOSED = "closed"


class Life:
    """The state of one sink, and the error that ended it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.state = State.CREATED
        self.failure: CalveError | None = None
        self._lock = Lock()
        self._busy = ""

    def __str__(self) -> str:
        return f"<IcebergSink {self._name} {self.state.value}>"

    @property
    def next_step(self) -> str:
        """What to do with a sink that is not open."""
        return "Open it first." if self.state is State.CREATED else "Make a new sink for another run."

    def check_created(self) -> None:
        if self.state is not State.CREATED:
            raise SinkState(f"{self} cannot be opened", hint="Make a new sink for another run.")

    def check_open(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.state is not State.OPEN:
            raise SinkState(f"{self} is not open", hint=self.next_step)

    def ends_with(self, error: CalveError) -> bool:
        """Whether the run is over by this error; then it is."""
        if not isinstance(error, Fenced | TableError):
            return False
        self.state, self.failure = State.FAILED, error
        return True

    @contextmanager
    def alone(self, call: str) -> Iterator[None]:
        """Run one call, unless another runs."""
        if not self._lock.acquire(blocking=False):
            raise SinkState(
                f"{call} was called on {self} while {self._busy or 'another call'} is at work",
                hint="A sink is for one thread at a time. Hand the rows to one thread, or give each thread a "
                "sink with a 'writer.id' of its own.",
            )
        try:
            self._busy = f"{call} in thread {current_thread().name}"
            yield
        finally:
            self._busy = ""
            self._lock.release()


class Living(Protocol):
    """Whatever has a life."""

    @property
    def _life(self) -> Life: ...


_Self = TypeVar("_Self", bound=Living)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def alone(call: Callable[Concatenate[_Self, _P], _R]) -> Callable[Concatenate[_Self, _P], _R]:
    """A call that runs alone."""

    @wraps(call)
    def guarded(self: _Self, /, *arguments: _P.args, **named: _P.kwargs) -> _R:
        with self._life.alone(call.__name__):
            return call(self, *arguments, **named)

    return guarded
