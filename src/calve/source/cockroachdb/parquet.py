"""Parquet files of a changefeed: refused for now."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from calve.model.errors import ConfigError
from calve.source.cockroachdb.lines import Rows
from calve.source.cockroachdb.names import DataFile
from calve.source.cockroachdb.plan import TopicPlan


class ParquetReader:
    """The rows of one file."""

    def __init__(self, file: DataFile, table: TopicPlan | None) -> None:
        self._file, self._table = file, table

    def rows(self, stream: pa.NativeFile) -> Iterator[Rows]:  # noqa: ARG002
        raise ConfigError(f"the file {self._file.path} is Parquet", hint="Use format = json.")
