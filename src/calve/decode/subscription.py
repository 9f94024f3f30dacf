"""Subscription: Materialize's messages, as `envelope/materialize.py` describes them, by kernels.

Its times and weights are numbers or texts, and so are timestamps of columns: a stream has one way, which is
found by trying. Plain is a row with its time and its weight, or its state. Progress is not: it is rare, and
the envelope reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.messages import Messages, changes, check_names
from calve.decode.tables import TopicPlan
from calve.model.columns import OP, ORDER, TIME

TIMESTAMP, PROGRESSED, DIFF, STATE = "mz_timestamp", "mz_progressed", "mz_diff", "mz_state"
_META = frozenset((TIMESTAMP, PROGRESSED, DIFF, STATE))
_LONG, _TEXT = pa.int64(), pa.string()
_INSTANTS = ("timestamp", "timestamptz")


@dataclass(frozen=True)
class Subscription:
    """The messages of one subscription."""

    table: TopicPlan
    spelt: tuple[str, ...]
    """The names of the columns in messages."""
    states: tuple[str, ...]
    """What may happen to a row; none: it has a weight."""
    others: frozenset[str]
    """Names of messages that are none of these columns, and known."""
    checks_names: bool = True
    _way: list[int] = field(default_factory=lambda: [0], compare=False)
    """The way that the last messages came in."""

    is_text = True

    @cached_property
    def struct(self) -> pa.DataType:
        if self.states:
            return pa.struct([*self.table.arrow, (OP, _TEXT), (TIME, _LONG)])
        return pa.struct([*self.table.arrow, (OP, _LONG), (TIME, _LONG), (ORDER, _LONG)])

    @cached_property
    def _ways(self) -> list[pa.Schema]:
        """What messages may be parsed as."""
        has_instants = any(one.type in _INSTANTS for one in self.table.columns)
        found = []
        for number, in_numbers in product((_LONG, _TEXT), (False, True) if has_instants else (False,)):
            word = (STATE, _TEXT) if self.states else (DIFF, number)
            columns = [
                (name, _LONG if in_numbers and one.type in _INSTANTS else one.json)
                for name, one in zip(self.spelt, self.table.columns, strict=True)
            ]
            found.append(pa.schema([(TIMESTAMP, number), (PROGRESSED, pa.bool_()), word, *columns]))
        return found

    def read(self, messages: Messages) -> pa.Array:
        """Their changes, null where a message is not plain."""
        parsed = self._parsed(messages)
        if self.checks_names:
            check_names(parsed.schema, _META | self.others | set(self.spelt))
        time = pc.cast(parsed[TIMESTAMP], _LONG)
        good = pc.and_(pc.greater_equal(time, 0), pc.invert(pc.fill_null(parsed[PROGRESSED], False)))
        named = zip(self.spelt, self.table.columns, strict=True)
        read = {one.name: one.read(_instant(parsed[name], one.arrow)) for name, one in named}
        if (doubtful := self.table.doubtful(read, messages.values)) is not None:
            good = pc.and_not(good, doubtful)
        columns = list(read.values())
        if self.states:
            good = pc.and_(good, pc.is_in(parsed[STATE], pa.array(self.states)))
            columns += [parsed[STATE], time]
        else:
            weight = pc.cast(parsed[DIFF], _LONG)
            good = pc.and_(good, pc.not_equal(weight, 0))
            order = pc.cast(pc.greater(weight, 0), _LONG)
            columns += [weight, time, order]
        return changes(self.struct, columns, pc.fill_null(good, False))

    def _parsed(self, messages: Messages) -> pa.RecordBatch:
        count = len(self._ways)
        for number in range(count):
            way = (self._way[0] + number) % count
            try:
                parsed = messages.parse(self._ways[way], all_names=self.checks_names)
            except pa.ArrowInvalid:
                if number == count - 1:
                    raise
                continue
            self._way[0] = way
            return parsed
        raise AssertionError("there is a way")


def _instant(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Milliseconds since 1970 as a timestamp; others as they are."""
    if not (pa.types.is_timestamp(kind) and array.type == _LONG):
        return array
    return pc.cast(pc.cast(array, pa.timestamp("ms", kind.tz)), kind)
