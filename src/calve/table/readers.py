"""Readers: which engines read a table of ours right, which refuse it, and which get it wrong. Pure data.

    what a table holds ──features──▶ Feature … ──answers──▶ for each reader: right, refuses, wrong; and a note

A table of plain data files is read by everybody. What not every reader knows are equality deletes, and each
way in which they reach further. The worst answer over all features of a table is the reader's answer: one
that is wrong about one of them is wrong about the table, whatever else it can do.

Every answer was seen, with the versions that stand here: all snapshots of such tables were read and compared
with the truth. The readers of `every_day` are asked again by the tests of each day, the others were asked by
hand. Nothing here is guessed: what was not tried is called so.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum


class Feature(Enum):
    """What a table may hold that not every reader knows."""

    EQUALITY_DELETES = "upsert tables"
    GLOBAL_DELETES = "global deletes"
    NULL_KEYS = "keys with nulls"
    VECTORS = "deletion vectors (v3)"


class Reads(Enum):
    """How a reader does, from the best to the worst."""

    RIGHT = "right"
    SETTING = "right with a setting"
    REFUSES = "refuses"
    UNTRIED = "not tried"
    WRONG = "wrong"

    @property
    def badness(self) -> int:
        return list(Reads).index(self)


@dataclass(frozen=True, slots=True)
class Answer:
    """How a reader does with something, and what to know of it."""

    reads: Reads
    note: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """An engine in the version that was tried."""

    name: str
    version: str
    answers: Mapping[Feature, Answer]
    every_day: bool = False
    """The tests of each day ask it."""
    remark: str = ""
    """Where it errs beside what its answers say."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


_RIGHT = Answer(Reads.RIGHT)
_REFUSES = Answer(Reads.REFUSES)
_LOSES_ROWS = Answer(Reads.WRONG, "loses rows")


def _reader(name: str, version: str, *answers: Answer, every_day: bool = False, remark: str = "") -> Reader:
    return Reader(name, version, dict(zip(Feature, answers, strict=True)), every_day, remark)


READERS: tuple[Reader, ...] = (
    _reader(
        "Spark",
        "4.1 with Iceberg 1.11",
        *(_RIGHT,) * 4,
        every_day=True,
        remark="A session that read the table before its key column went from int to long may show a "
        "deleted row: `spark.sql.iceberg.executor-cache.enabled=false`, or a new session, is right.",
    ),
    _reader("Sail", "0.7", *(_RIGHT,) * 4, every_day=True),
    _reader(
        "DuckDB",
        "1.5",
        _RIGHT,
        _RIGHT,
        _LOSES_ROWS,
        _RIGHT,
        every_day=True,
        remark="It fails, with an error, after a key column went from int to long, and where deletes stay "
        "inside partitions of which a field is `void`.",
    ),
    _reader("DataFusion", "54 with pyiceberg-core 0.11", *(_RIGHT,) * 4),
    _reader("Trino", "476", _RIGHT, _RIGHT, _RIGHT, _REFUSES),
    _reader(
        "Flink",
        "2.1 with Iceberg 1.11",
        _RIGHT,
        Answer(Reads.SETTING, "only with `table.exec.iceberg.use-flip27-source=false`"),
        _RIGHT,
        Answer(Reads.SETTING, "only with `table.exec.iceberg.use-flip27-source=false`"),
    ),
    _reader(
        "chDB", "26.9", _RIGHT, Answer(Reads.WRONG, "ignores them, and says nothing"), _LOSES_ROWS, _REFUSES
    ),
    _reader("PyIceberg", "0.12", _REFUSES, _REFUSES, _REFUSES, _RIGHT),
    _reader("Polars", "", _REFUSES, _REFUSES, _REFUSES, _RIGHT),
    _reader("Daft", "", _REFUSES, _REFUSES, _REFUSES, Answer(Reads.UNTRIED)),
)


def features(
    *, upsert: bool, global_deletes: bool = False, null_keys: bool = False, vectors: bool = False
) -> frozenset[Feature]:
    """What a table holds for its readers.

    `global_deletes`: a row's partition does not follow from its key, now or in an older partition spec.
    `null_keys`: a key may have nulls. `vectors`: all deletes are vectors of format version 3, so that no
    reader meets an equality delete any more.
    """
    if not upsert:
        return frozenset()
    if vectors:
        return frozenset({Feature.VECTORS})
    held = {Feature.EQUALITY_DELETES}
    if global_deletes:
        held.add(Feature.GLOBAL_DELETES)
    if null_keys:
        held.add(Feature.NULL_KEYS)
    return frozenset(held)


def answer(reader: Reader, held: Set[Feature]) -> Answer:
    """How a reader does with a table: the worst over what the table holds."""
    met = [reader.answers[feature] for feature in Feature if feature in held]
    worst = max((one.reads for one in met), key=lambda reads: reads.badness, default=Reads.RIGHT)
    notes = dict.fromkeys(one.note for one in met if one.reads is worst and one.note)
    return Answer(worst, "; ".join(notes))


def answers(held: Set[Feature]) -> tuple[tuple[Reader, Answer], ...]:
    """How every reader does with a table, in the order of the list."""
    return tuple((reader, answer(reader, held)) for reader in READERS)
