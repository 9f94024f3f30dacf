"""What can go wrong in a simulated world, by name, and how often it does.

A world counts every fault that it really gave, so that a test can say that the simulation met them all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random

import requests
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)

from calve.model.errors import StoreError


class Crash(BaseException):
    """The process dies here. Not an Exception: nothing may catch it and go on."""


class CommitFault(Enum):
    """What becomes of a request to commit."""

    REFUSED_409 = "409 for no reason"
    APPLIED_409 = "409, though applied"
    APPLIED_500 = "500, though applied"
    APPLIED_503 = "503, though applied"
    APPLIED_RESET = "connection reset, though applied"
    APPLIED_TIMEOUT = "no answer, though applied"
    APPLIED_CUT = "an answer that is cut, though applied"
    LOST_500 = "500, not applied"
    LOST_503 = "503, not applied"
    LOST_RESET = "connection reset, not applied"
    DELAYED = "no answer, applied later"
    UNAUTHORIZED_401 = "401"
    FORBIDDEN_403 = "403"
    SLOW_DOWN_429 = "429"
    CRASH_BEFORE = "crash before the request left"
    CRASH_AFTER = "crash after it was applied"


class LoadFault(Enum):
    """What becomes of a request to load the table."""

    STALE = "an older version of the table"
    FAILED_500 = "500 for a load"
    RESET = "connection reset for a load"
    UNAUTHORIZED_401 = "401 for a load"
    CRASH = "crash at a load"


class WriteFault(Enum):
    """What becomes of a metadata file that is written."""

    FULL = "no room"
    LOST_ANSWER = "written, but the answer was lost"
    CRASH_BEFORE = "crash before a file"
    CRASH_AFTER = "crash after a file"


class ReadFault(Enum):
    """What becomes of a metadata file that is read."""

    UNREADABLE = "cannot be read now"
    CRASH = "crash at a read"


Fault = CommitFault | LoadFault | WriteFault | ReadFault

NOT_APPLIED = frozenset(
    {
        CommitFault.REFUSED_409,
        CommitFault.LOST_500,
        CommitFault.LOST_503,
        CommitFault.LOST_RESET,
        CommitFault.UNAUTHORIZED_401,
        CommitFault.FORBIDDEN_403,
        CommitFault.SLOW_DOWN_429,
        CommitFault.DELAYED,
    }
)

_ANSWERS: dict[Fault, Callable[[], BaseException]] = {
    CommitFault.REFUSED_409: lambda: CommitFailedException("409"),
    CommitFault.APPLIED_409: lambda: CommitFailedException("409"),
    CommitFault.APPLIED_500: lambda: CommitStateUnknownException("500"),
    CommitFault.APPLIED_503: lambda: ServiceUnavailableError("503"),
    CommitFault.APPLIED_RESET: lambda: requests.ConnectionError("reset"),
    CommitFault.APPLIED_TIMEOUT: lambda: requests.Timeout("no answer"),
    CommitFault.APPLIED_CUT: lambda: json.JSONDecodeError("cut", '{"metadata', 0),
    CommitFault.LOST_500: lambda: CommitStateUnknownException("502"),
    CommitFault.LOST_503: lambda: ServiceUnavailableError("503"),
    CommitFault.LOST_RESET: lambda: requests.ConnectionError("reset"),
    CommitFault.DELAYED: lambda: requests.Timeout("no answer"),
    CommitFault.UNAUTHORIZED_401: lambda: UnauthorizedError("401"),
    CommitFault.FORBIDDEN_403: lambda: ForbiddenError("403"),
    CommitFault.SLOW_DOWN_429: lambda: TooManyRequestsError("429"),
    CommitFault.CRASH_BEFORE: lambda: Crash(),
    CommitFault.CRASH_AFTER: lambda: Crash(),
    LoadFault.FAILED_500: lambda: ServerError("500"),
    LoadFault.RESET: lambda: requests.ConnectionError("reset"),
    LoadFault.UNAUTHORIZED_401: lambda: UnauthorizedError("401"),
    LoadFault.CRASH: lambda: Crash(),
    WriteFault.FULL: lambda: StoreError("no room", hint="Make room."),
    WriteFault.LOST_ANSWER: lambda: StoreError("no answer", hint="Try again."),
    WriteFault.CRASH_BEFORE: lambda: Crash(),
    WriteFault.CRASH_AFTER: lambda: Crash(),
    ReadFault.UNREADABLE: lambda: StoreError("cannot be read", hint="Try again."),
    ReadFault.CRASH: lambda: Crash(),
}


def answer(fault: Fault) -> BaseException:
    """What the client gets to see of a fault."""
    return _ANSWERS[fault]()


@dataclass(frozen=True, slots=True)
class Weather:
    """How often things go wrong, as chances of one call."""

    commit: float = 0.0
    load: float = 0.0
    store: float = 0.0
    crash: float = 0.0
    interleave: float = 0.0
    """Somebody else acts in the middle of a call."""
    late: float = 0.0
    """A request that was taken earlier is applied."""

    @classmethod
    def drawn(cls, random: Random) -> Weather:
        storm = random.choice((0.0, 0.1, 0.3, 0.6))
        return cls(
            commit=storm,
            load=storm / 2,
            store=random.choice((0.0, 0.0, 0.02, 0.1)),
            crash=random.choice((0.0, 0.01, 0.05)),
            interleave=random.choice((0.0, 0.1, 0.25)),
            late=0.15,
        )


CALM = Weather()
CLEARED = Weather(late=0.15)
"""Nothing goes wrong any more, but what is under way still arrives."""
