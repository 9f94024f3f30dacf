"""Line: whatever is replayed, restored or begun anew, a row is placed once, or is late as it always was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from calve.model.batch import Batch
from calve.protocol.frontier import Frontier
from calve.protocol.line import Known, Line, draw
from calve.protocol.mint import MintPolicy

TIMES = st.integers(0, 200)


# -- one line -------------------------------------------------------------------------------------


@given(
    interval=st.none() | st.integers(1, 50),
    ahead=st.integers(0, 5),
    committed=TIMES,
    closed=st.none() | TIMES,
    frontier=TIMES,
    resumed=st.booleans(),
)
def test_p2_the_batches_of_a_line_tile_from_its_lower_on(
    interval: int | None, ahead: int, committed: int, closed: int | None, frontier: int, resumed: bool
) -> None:
    known = None if closed is None else Known(closed, closed)
    line = draw(MintPolicy(interval, ahead), committed, known, frontier, resumed=resumed)
    edges = [line.lower, *(batch.upper for batch in line.batches)]
    assert [batch.lower for batch in line.batches] == edges[:-1]
    assert line.placed == edges[-1]
    assert all(batch.upper <= frontier for batch in line.closed)
    assert len(line.closed) <= 1 or not resumed
    assert len(line.open) == (ahead if interval else 0)


@given(interval=st.none() | st.integers(1, 50), committed=TIMES, closed=TIMES, frontier=TIMES)
def test_what_the_stream_has_closed_does_not_hang_on_the_table(
    interval: int | None, committed: int, closed: int, frontier: int
) -> None:
    policy = MintPolicy(interval, 0)
    ahead_of_it = draw(policy, committed, Known(closed, closed), frontier, resumed=False)
    empty = draw(policy, 0, Known(closed, closed), frontier, resumed=False)
    assert ahead_of_it.stream_closed == empty.stream_closed
    assert empty.stream_closed == (empty.closed[-1].upper if empty.closed else closed)


def test_files_are_written_ahead_also_where_a_stop_lies_before_and_nothing_is_closed() -> None:
    line = draw(MintPolicy(10, 2), 0, Known(0, 20), 7, resumed=True)
    assert line.closed == ()
    assert line.open == (Batch(0, 10), Batch(10, 20))
    assert (line.placed_before, line.placed) == (20, 20)


def test_case_13_under_an_older_checkpoint_batches_begin_at_the_table_and_lateness_at_the_stream() -> None:
    line = draw(MintPolicy(), 50, Known(10, 10), 12, resumed=True)
    assert (line.lower, line.late, line.closed, line.stream_closed) == (50, 10, (), 12)


# -- a stream that is replayed from anywhere ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """What a checkpoint has after a micro-batch."""

    number: int = -1
    frontier: int = 0
    known: Known | None = None
    stash: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Segments of rows that wait, as (time, id). One is kept whole as long as a row of it waits."""
    files: tuple[tuple[Batch, tuple[int, int]], ...] = ()
    """Rows in files of open batches."""


@dataclass(slots=True)
class Stream:
    """A stream with an estimated frontier, its table, and what went wrong with rows."""

    sent: list[list[int]]
    delay: int
    policy: MintPolicy
    table: list[tuple[Batch, frozenset[tuple[int, int]]]] = field(default_factory=list)
    late: set[tuple[int, int]] = field(default_factory=set)

    @property
    def committed(self) -> int:
        return self.table[-1][0].upper if self.table else 0

    def rows(self, number: int) -> Iterator[tuple[int, int]]:
        first = sum(map(len, self.sent[:number]))
        for place, time in enumerate(self.sent[number]):
            yield time, first + place

    def step(self, kept: Kept, *, resumed: bool, dies: bool) -> Kept:
        """The micro-batch after `kept`. If the run dies, then before it commits."""
        number = kept.number + 1
        frontier = Frontier(kept.frontier).seen(max(self.sent[number], default=None), self.delay).time
        known = kept.known
        if known is not None and not kept.files:
            known = replace(known, placed=known.closed)
        line = draw(self.policy, self.committed, known, frontier, resumed=resumed)
        placed, waiting = self._sorted(number, kept, line)
        files = (*kept.files, *placed)
        if not dies:
            self._commit(line, files)
        return Kept(
            number,
            frontier,
            Known(line.stream_closed, line.placed),
            waiting,
            tuple((batch, row) for batch, row in files if batch.upper > line.stream_closed),
        )

    def _sorted(self, number: int, kept: Kept, line: Line):
        placed, waiting = [], []
        for row in self.rows(number):
            if row[0] < line.late:
                self.late.add(row)
            elif line.lower <= row[0] < line.placed:
                placed.append((self._batch(line, row), row))
            elif row[0] >= line.placed:
                waiting.append(row)
        for segment in kept.stash:
            again = [row for row in segment if line.placed_before <= row[0] < line.placed]
            placed += [(self._batch(line, row), row) for row in again]
        segments = [segment for segment in kept.stash if max(segment)[0] >= line.placed]
        return placed, (*segments, tuple(waiting)) if waiting else tuple(segments)

    def _batch(self, line: Line, row: tuple[int, int]) -> Batch:
        (found,) = (batch for batch in line.batches if row[0] in batch)
        return found

    def _commit(self, line: Line, files) -> None:
        lower = self.committed
        for closed in line.closed:
            mine = [row for batch, row in files if batch.upper in range(closed.lower + 1, closed.upper + 1)]
            if mine:
                assert len(mine) == len(set(mine)), "a row is in two files"
                self.table.append((Batch(lower, closed.upper), frozenset(mine)))
                lower = closed.upper


ACTS = st.lists(st.sampled_from(["go on", "die", "land and die", "restore", "begin anew"]), max_size=14)


# A segment of which one row is in a file of an open batch, while the other still waits.
@example(
    sent=[[0, 22, 30], [36], [37], [60]], delay=20, interval=3, keyed=False, acts=[], pick=Random(0)
)  # fmt: skip
@settings(max_examples=600)
@given(
    sent=st.lists(st.lists(st.integers(0, 60), max_size=4), min_size=1, max_size=6),
    delay=st.integers(0, 20),
    interval=st.none() | st.integers(1, 12),
    keyed=st.booleans(),
    acts=ACTS,
    pick=st.randoms(use_true_random=False),
)
def test_cases_12_13_and_66_every_row_is_in_its_batch_once_or_late_as_in_a_run_without_faults(
    sent, delay, interval, keyed, acts, pick
) -> None:
    """Cases 5, 12, 13, 66: a run dies before or after its commit, an older checkpoint is restored, or a new
    one reads everything again; at the end the table and the late rows are those of one undisturbed run."""
    policy = MintPolicy(interval, 0 if keyed else 3)
    ideal = Stream(sent, delay, policy)
    kept = Kept()
    for number in range(len(sent)):
        kept = ideal.step(kept, resumed=number == 0, dies=False)

    stream = Stream(sent, delay, policy)
    history = [Kept()]
    resumed = True
    for act in acts:
        if act == "restore":
            history = history[: pick.randrange(len(history)) + 1]
        elif act == "begin anew":
            history = [Kept()]
        elif history[-1].number + 1 < len(sent):
            after = stream.step(history[-1], resumed=resumed, dies=act == "die")
            if act == "go on":
                history.append(after)
        resumed = act != "go on"
    while history[-1].number + 1 < len(sent):
        history.append(stream.step(history[-1], resumed=resumed, dies=False))
        resumed = False

    assert stream.late == ideal.late
    assert {row for _, rows in stream.table for row in rows} == {
        row for _, rows in ideal.table for row in rows
    }
    edges = [0, *(batch.upper for batch, _ in stream.table)]
    assert [batch.lower for batch, _ in stream.table] == edges[:-1]
    for batch, rows in stream.table:
        assert all(time in batch for time, _ in rows)
    placed = [row for _, rows in stream.table for row in rows]
    assert len(placed) == len(set(placed))


def test_the_simulation_sees_a_table_that_is_taken_for_the_stream_s_clock() -> None:
    """If what the table has were handed on as closed, replayed rows would be late."""
    stream = Stream([[10], [20], [30], [15]], 5, MintPolicy())
    wrong = stream.step(Kept(), resumed=True, dies=False)
    for _ in range(2):
        wrong = stream.step(wrong, resumed=False, dies=False)
    again = replace(Kept(), known=Known(stream.committed, stream.committed))
    stream.step(again, resumed=True, dies=False)
    assert stream.late
    assert stream.committed == 25
