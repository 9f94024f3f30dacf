"""One Parquet file while it is written: row group by row group, then its footer.

Guarantee: when `close` returns the file is whole and durable; until then it is nothing, and one that was
abandoned never gets a footer. Every field carries its Iceberg id. A store that fails is a `StoreError` with
the file's path.

The Arrow schema is not stored in the footer: it would tell pyarrow alone what Parquet's own types and
the table's schema tell everybody.

Not here: which rows go into a row group, and when a file is full (files.py, rolling.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pyarrow.parquet as pq

from calve.model.errors import StoreError
from calve.store.base import abandon
from calve.writer.hidden import hiding_columns, without_hidden_nulls
from calve.writer.metrics import NanCounter
from calve.writer.plan import FileSettings

_CHUNK_ROWS_MIN = 1024
"""Chunks of fewer rows on average are joined before they are written: each costs a call per column."""


class OpenFile:
    """A Parquet file that is being written. It owns the stream that it is given, and closes it."""

    def __init__(
        self, path: str, sink: pa.NativeFile, schema: pa.Schema, settings: FileSettings, dictionary: list[str]
    ) -> None:
        """`dictionary` are the leaves that get one, by their paths."""
        self.path = path
        self.rows = 0
        self.groups = 0
        self.nans = NanCounter(schema)
        self.metadata: pq.FileMetaData | None = None
        """The footer, once it is written."""
        self._sink = sink
        self._hiding = hiding_columns(schema)
        try:
            self._writer = pq.ParquetWriter(sink, schema, **parquet_options(settings, dictionary))
        except (OSError, StoreError):
            with suppress(OSError, StoreError):
                sink.close()
            raise
        self.position: int = sink.tell()
        """The file's bytes so far."""

    def write(self, group: pa.Table) -> None:
        """Write one row group."""
        if group.num_rows < _CHUNK_ROWS_MIN * group.column(0).num_chunks:
            group = group.combine_chunks()
        self.nans.count(group)
        group = without_hidden_nulls(group, self._hiding)
        with _as_store_errors(self.path):
            self._writer.write_table(group, row_group_size=group.num_rows)
            self.position = self._sink.tell()
        self.rows += group.num_rows
        self.groups += 1

    def close(self) -> None:
        """Write the footer; when this returns the file is whole and durable."""
        with _as_store_errors(self.path):
            self._writer.close()
            self.metadata = self._writer.writer.metadata
            self.position = self._sink.tell()
            self._sink.close()

    def abandon(self) -> None:
        """Let go of a file that is not to be finished."""
        self._writer.is_open = False  # or it would write a footer when it is collected
        with suppress(OSError, StoreError):
            abandon(self._sink)


def parquet_options(settings: FileSettings, dictionary: list[str]) -> dict[str, object]:
    """pyarrow's options for the settings."""
    return {
        "version": "2.6",
        "compression": settings.compression,
        "compression_level": settings.compression_level,
        "use_dictionary": dictionary,
        "dictionary_pagesize_limit": settings.dictionary_bytes_max,
        "data_page_size": settings.page_bytes,
        "write_statistics": True,
        # Iceberg stores decimals of up to 9 and 18 digits as integers: smaller, and what readers expect.
        "store_decimal_as_integer": True,
        "store_schema": False,
    }


@contextmanager
def _as_store_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}",
            hint="Nothing of this batch was committed. Make room or mend the store, then start again.",
        ) from error
