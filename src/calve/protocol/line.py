"""Line: the time line of one micro-batch, and where its rows belong on it. Pure.

      late        lower            closed           placed
    ───┼────────────┼───────┬────────┼───────┬────────┼──────────────▶ time
       │  replayed  │ closed batches │  open batches  │ wait

Two clocks meet here. The stream has its own, which only its checkpoint remembers: what it has closed is late
when it comes again. The table has another, its frontier: what lies before it is in the table. Most of the
time they agree. They do not where a checkpoint is new, or older than the table: then the stream tells old
rows again, in their order, and none of them is late by the stream's own clock (cases 13 and 66). So each
micro-batch hands on what the *stream* has closed by now, never what the table has.

Closed batches follow the table's frontier without a gap (P2).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from calve.model.batch import Batch
from calve.protocol.mint import Mint, MintPolicy, advance, catch_up, resume


@dataclass(frozen=True, slots=True)
class Known:
    """What the micro-batch before left of the time line."""

    closed: int
    """Everything before it was closed by the stream."""
    placed: int
    """Everything before it is in files."""


@dataclass(frozen=True, slots=True)
class Line:
    """Where the rows of a micro-batch belong."""

    committed: int
    """The table's frontier."""
    late: int
    """What the stream had closed before this micro-batch."""
    closed: tuple[Batch, ...]
    """The batches that end with this micro-batch."""
    open: tuple[Batch, ...]
    """Batches that files are written for ahead of their end."""
    placed_before: int
    """Everything before it was in files, or in the table, when the micro-batch began."""
    stream_closed: int
    """What the stream has closed after this micro-batch."""

    @property
    def lower(self) -> int:
        """Where batches begin: what the stream closed and what the table has are both behind it."""
        return max(self.committed, self.late)

    @property
    def closed_to(self) -> int:
        """Everything before it is in closed batches, or was."""
        return self.closed[-1].upper if self.closed else self.lower

    @property
    def batches(self) -> tuple[Batch, ...]:
        return (*self.closed, *self.open)

    @property
    def placed(self) -> int:
        """Everything before it is in files after this micro-batch; the rest waits."""
        return max(self.batches[-1].upper if self.batches else self.lower, self.placed_before)


def draw(
    policy: MintPolicy,
    committed: int,
    known: Known | None,
    frontier: int,
    *,
    resumed: bool,
    resolved: Collection[int] = (),
) -> Line:
    """The line of a micro-batch that takes the stream's frontier to `frontier`.

    `known` is None for the first micro-batch of a checkpoint. `resumed`: a stop lies before it, and one batch
    catches up with all that was closed meanwhile; else each of the `resolved` times up to the frontier ends
    one, where there is no interval.
    """
    late = 0 if known is None else known.closed
    lower = max(committed, late)
    mint = resume(policy, lower)
    mint, closed = catch_up(mint, frontier) if resumed else advance(mint, frontier, resolved)
    _, by_stream = catch_up(Mint(policy, late), frontier)
    return Line(
        committed=committed,
        late=late,
        closed=closed,
        open=mint.open,
        placed_before=lower if known is None else max(known.placed, lower),
        stream_closed=by_stream[-1].upper if by_stream else late,
    )
