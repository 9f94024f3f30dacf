"""Parquet files of a changefeed: a row a row, its columns typed, its metadata in columns that begin with
`__crdb__`.

    file ──footer──▶ readable ──row groups──▶ columns ──carriers──▶ rows with their struct
                                                │ a value that does not fit: halved, down to one row
                                                ▶ a row with its text, as if it had come in JSON

`__crdb__event_type` is c, u or d; `__crdb__updated` the time, if the changefeed was created WITH updated. A
delete has its key columns, and nulls. Nothing in a file says which columns are the key: a topic must be
declared. Dates and timestamps are text, and decimals too (`footer`). A file is held in memory as a whole:
CockroachDB did the same, its `file_size` bounds it (16 MB).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from calve.decode.carriers import JSON
from calve.decode.parse import times
from calve.decode.tables import DELETE, TIME, UPSERT, TopicPlan
from calve.decode.texts import json_arrays, json_objects, quoted
from calve.model.columns import TYPES
from calve.model.errors import ConfigError
from calve.source.cockroachdb.blocks import numbers
from calve.source.cockroachdb.footer import without_decimals
from calve.source.cockroachdb.lines import Rows
from calve.source.cockroachdb.names import DataFile

META = "__crdb__"
EVENT, UPDATED = META + "event_type", META + "updated"
ROWS_MAX = 16_384
"""Rows of a record batch."""


class ParquetReader:
    """The rows of one file."""

    def __init__(self, file: DataFile, table: TopicPlan | None) -> None:
        if table is None:
            raise ConfigError(
                f"the file {file.path} is Parquet, and its topic {file.topic} was not declared",
                hint="Declare the table's columns and its key: Parquet files do not say what the key is.",
            )
        self._file, self._table = file, table

    def rows(self, stream: pa.NativeFile) -> Iterator[Rows]:
        """The rows, in order."""
        try:
            opened = pq.ParquetFile(pa.BufferReader(without_decimals(stream.read())))
        except ValueError as error:  # what is damaged may be anything: names that are no text, too
            raise OSError(str(error)) from None
        self._check(opened.schema_arrow.names)
        number = 1
        for batch in opened.iter_batches(ROWS_MAX, use_threads=False):
            yield from self._read(_plain(batch), number)
            number += batch.num_rows

    def _check(self, names: list[str]) -> None:
        for name, option in ((EVENT, "format = parquet"), (UPDATED, "updated")):
            if name not in names:
                raise ConfigError(
                    f"the file {self._file.path} has no column {name}",
                    hint=f"Create the changefeed WITH {option}: without it nothing says when a row changed.",
                )

    def _read(self, batch: pa.RecordBatch, first: int) -> Iterator[Rows]:
        names = {name for name in batch.schema.names if not name.startswith(META)}
        values: pa.Array | None = None
        if names <= self._table.names:
            try:
                values = self._values(batch)
            except pa.ArrowException:
                if batch.num_rows > 1:
                    half = batch.num_rows // 2
                    yield from self._read(batch.slice(0, half), first)
                    yield from self._read(batch.slice(half), first + half)
                    return
        at = times(batch[UPDATED])
        deleted = pc.equal(batch[EVENT], "d")
        error = self._errors(batch, at)
        good = pc.is_null(error)
        if values is None or not pc.all(good).as_py():
            raw = self._raw(batch, deleted)
        else:
            raw = pa.nulls(batch.num_rows, pa.string())
        if values is not None:
            raw = pc.if_else(good, pa.scalar(None, pa.string()), raw)
        yield Rows(
            numbers(first, batch.num_rows),
            pc.if_else(good, pc.if_else(deleted, DELETE, UPSERT), pa.scalar(None, pa.string())),
            pc.if_else(good, at, pa.scalar(None, TIME)),
            error,
            raw,
            values,
        )

    def _values(self, batch: pa.RecordBatch) -> pa.Array:
        arrays = []
        for one in self._table.columns:
            if one.name not in batch.schema.names:
                arrays.append(pa.nulls(batch.num_rows, one.arrow))
                continue
            array = batch[one.name]
            if pa.types.is_binary(array.type) and one.type != "binary":
                array = pc.cast(array, pa.string())  # decimals, enums
            arrays.append(one.finish(array))
        return pa.StructArray.from_arrays(arrays, fields=list(self._table.arrow))

    def _errors(self, batch: pa.RecordBatch, at: pa.Array) -> pa.Array:
        error = pa.nulls(batch.num_rows, pa.string())
        if at.null_count:
            said = pc.binary_join_element_wise(
                pa.scalar(f"its {UPDATED} is no HLC: "), pc.fill_null(batch[UPDATED], "null"), ""
            )
            error = pc.if_else(pc.is_null(at), said, error)
        event = pc.fill_null(batch[EVENT], "null")
        known = pc.is_in(event, pa.array(["c", "u", "d"]))
        if not pc.all(known).as_py():
            said = pc.binary_join_element_wise(pa.scalar(f"its {EVENT} is none of c, u, d: "), event, "")
            error = pc.if_else(known, error, said)
        return error

    def _raw(self, batch: pa.RecordBatch, deleted: pa.Array) -> pa.Array:
        """Rows as they would have come in JSON."""
        columns = {name: batch[name] for name in batch.schema.names if not name.startswith(META)}
        numbers = [one.name for one in self._table.columns if one.type.startswith("decimal")]
        documents = [one.name for one in self._table.columns if one.type == JSON]
        after = pc.if_else(deleted, "null", json_objects(columns, numbers, documents))
        key = json_arrays({name: columns[name] for name in self._table.key if name in columns}, numbers)
        updated = pc.fill_null(quoted(batch[UPDATED]), "null")
        new = {name: array.type for name, array in columns.items() if name not in self._table.names}
        types = {name: kind for name, found in new.items() if (kind := _notation(found)) is not None}
        behind = f', "{TYPES}": {json.dumps(types)}}}'
        parts = ['{"after": ', after, ', "key": ', key, ', "updated": ', updated, behind]
        texts = [pa.scalar(part) if isinstance(part, str) else part for part in parts]
        return pc.binary_join_element_wise(*texts, "")


_KINDS = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
}


def _notation(kind: pa.DataType) -> str | None:
    """A type in Iceberg's notation; `None` where the file does not tell what a text or bytes stand for."""
    if pa.types.is_list(kind):
        inner = _notation(kind.value_type)
        return None if inner is None else f"list<{inner}>"
    return _KINDS.get(kind)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without Arrow's own types for uuid and JSON."""
    arrays = [array.storage if isinstance(array, pa.ExtensionArray) else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
