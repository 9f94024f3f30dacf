"""The schedule: which request meets which fault, from a seed alone.

    seed, kind, number ──▶ fault = (what becomes of the request, what the client is answered)

The n-th commit and the n-th load of a round meet the same fault under the same seed, whichever run sends
them: a seed that failed is read back by its log. The two halves of a fault are independent, as on a network:
a request that was applied can be answered by anything, and so can one that never arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random


class Kind(Enum):
    """What a request asks for."""

    COMMIT = "commit"
    LOAD = "load"
    CREATE = "create"
    TOKEN = "token"
    OTHER = "other"


class Act(Enum):
    """What becomes of a request."""

    APPLY = "applied"
    DROP = "not applied"
    APPLY_LATE = "applied after the client gave up"
    APPLY_TWICE = "sent twice"


class Reply(Enum):
    """What the client is answered."""

    TRUE = "the server's answer"
    RESET = "reset"
    CUT = "a body that ends too early"
    SHORT = "fewer bytes than were promised"
    SILENCE = "nothing, until the client gives up"
    OLDER = "an older table"
    EXPIRED = "401, until there is a new token"
    C409 = "409"
    C429 = "429"
    C500 = "500"
    C502 = "502"
    C503 = "503"
    C504 = "504"

    @property
    def status(self) -> int | None:
        """The status of an answer that is made up."""
        return int(self.value) if self.value.isdecimal() else None


@dataclass(frozen=True, slots=True)
class Fault:
    """One way of the network to lie; or none."""

    act: Act = Act.APPLY
    reply: Reply = Reply.TRUE

    @property
    def name(self) -> str:
        return "none" if self == NONE else f"{self.act.value}: {self.reply.value}"


NONE = Fault()

_ANSWERS = (Reply.C500, Reply.C502, Reply.C503, Reply.C504, Reply.C429)
_COMMIT: tuple[tuple[int, Fault], ...] = (
    (50, NONE),
    *((3, Fault(Act.APPLY, reply)) for reply in (*_ANSWERS, Reply.C409, Reply.RESET, Reply.CUT, Reply.SHORT)),
    *((2, Fault(Act.DROP, reply)) for reply in (*_ANSWERS, Reply.RESET, Reply.EXPIRED)),
    (2, Fault(Act.APPLY, Reply.SILENCE)),
    (1, Fault(Act.DROP, Reply.SILENCE)),
    (3, Fault(Act.APPLY_LATE, Reply.SILENCE)),
    (3, Fault(Act.APPLY_TWICE, Reply.TRUE)),
)
_LOAD: tuple[tuple[int, Fault], ...] = (
    (60, NONE),
    (20, Fault(Act.DROP, Reply.OLDER)),
    *((2, Fault(Act.DROP, reply)) for reply in (*_ANSWERS, Reply.RESET, Reply.EXPIRED)),
    *((2, Fault(Act.APPLY, reply)) for reply in (Reply.CUT, Reply.SHORT)),
    (1, Fault(Act.DROP, Reply.SILENCE)),
)
_CREATE: tuple[tuple[int, Fault], ...] = (
    (2, NONE),
    *((1, Fault(Act.APPLY, reply)) for reply in (Reply.C500, Reply.C503, Reply.RESET, Reply.CUT)),
    (1, Fault(Act.DROP, Reply.C500)),
)
_WEIGHTS = {Kind.COMMIT: _COMMIT, Kind.LOAD: _LOAD, Kind.CREATE: _CREATE}


class Schedule:
    """Faults from a seed."""

    def __init__(self, seed: str, *, without: Sequence[Reply] = ()) -> None:
        """`without`: answers that are not given, for servers or clients that have no such thing."""
        self._seed = seed
        self._without = frozenset(without)

    def fault(self, kind: Kind, number: int) -> Fault:
        """What the n-th request of its kind meets."""
        weights = _WEIGHTS.get(kind)
        if weights is None:
            return NONE
        drawn = self.random(kind, number).choices(
            [fault for _, fault in weights], [weight for weight, _ in weights]
        )[0]
        return NONE if drawn.reply in self._without else drawn

    def random(self, kind: Kind, number: int) -> Random:
        """What else is left to chance about a request."""
        return Random(f"{self._seed}/{kind.value}/{number}")


class Scripted(Schedule):
    """Given faults for the first commits and loads, and none after them."""

    def __init__(self, commits: Sequence[Fault] = (), loads: Sequence[Fault] = ()) -> None:
        super().__init__("scripted")
        self._faults = {Kind.COMMIT: commits, Kind.LOAD: loads}

    def fault(self, kind: Kind, number: int) -> Fault:
        faults = self._faults.get(kind, ())
        return faults[number - 1] if number <= len(faults) else NONE


def all_faults() -> frozenset[tuple[Kind, Fault]]:
    """Every fault that a schedule can draw."""
    return frozenset(
        (kind, fault) for kind, weights in _WEIGHTS.items() for _, fault in weights if fault != NONE
    )
