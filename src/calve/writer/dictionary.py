"""Dictionary: which columns of a file pay for one.

Arrow keeps a dictionary until it is full, also of a column of which every value is another: all values are
hashed, and most are written twice. Whether it pays is told by a sample of the first row group. How many
different values the whole row group has follows from the values that the sample has once and twice (Chao):

    all = seen + once · (once - 1) ÷ (2 · (twice + 1))

A wrong guess costs bytes or time, never a value.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

from calve.writer.metrics import Leaf, leaves

_SAMPLE_ROWS = 4096
_SEED = 7
_PAYS = 0.6
"""A dictionary and its indices are to take less than this part of the plain values."""


def chosen(setting: bool | tuple[str, ...], schema: pa.Schema, first: pa.Table) -> list[str]:
    """The paths of the leaves that get a dictionary: of the columns named, or those that pay for it by the
    first row group."""
    if setting is True:
        return paying(schema, first)
    named = set(setting or ())
    return [leaf.path for leaf in leaves(schema) if schema.field(leaf.steps[0]).name in named]


def paying(schema: pa.Schema, first: pa.Table) -> list[str]:
    """The leaves for which a dictionary takes less than plain values."""
    sample = _sample(first)
    return [leaf.path for leaf in leaves(schema) if _pays(leaf, sample, first.num_rows)]


def _sample(group: pa.Table) -> pa.Table:
    """Rows from everywhere: neighbours are alike, or go round in a circle."""
    if group.num_rows <= _SAMPLE_ROWS:
        return group
    places = pc.multiply(pc.random(_SAMPLE_ROWS, initializer=_SEED), float(group.num_rows))
    return group.take(pc.floor(places).cast(pa.int64()))


def _pays(leaf: Leaf, sample: pa.Table, rows: int) -> bool:
    if pa.types.is_boolean(leaf.kind):
        return False
    values = leaf.values(sample).drop_null()
    if isinstance(values.type, pa.BaseExtensionType):
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
    if not len(values):
        return False
    count = rows * len(values) / sample.num_rows
    distinct = min(_distinct(values), count)
    width = values.nbytes / len(values)
    index_bytes = math.ceil(math.log2(max(distinct, 2))) / 8
    return distinct * width + count * index_bytes < _PAYS * count * width


def _distinct(sample: pa.ChunkedArray) -> float:
    """How many different values there are, by a sample of them."""
    counts = pc.value_counts(sample).field("counts")
    once, twice = (pc.sum(pc.equal(counts, times)).as_py() or 0 for times in (1, 2))
    return float(len(counts) + once * (once - 1) / (2 * (twice + 1)))
