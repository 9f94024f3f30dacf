"""The buffer of an epoch: rows that came and have not moved on, up to a number, a size and an age.

The age is that of the oldest row, and is looked at when rows come: nothing here has a thread of its own.
"""

from __future__ import annotations

import pyarrow as pa

from calve.config.sink import SinkConfig
from calve.runtime.clock import Clock

_TABLES_MAX = 256
"""So many tables are joined to one: each costs memory of its own beside its bytes (P9)."""


class Buffer:
    """Tables in their order of arrival."""

    def __init__(self, config: SinkConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._tables: list[pa.Table] = []
        self._bytes = 0
        self._since = 0.0
        self.rows = 0

    def add(self, table: pa.Table) -> None:
        if not self._tables:
            self._since = self._clock.ticks_ms()
        self._tables.append(table)
        self.rows += table.num_rows
        self._bytes += table.nbytes
        if len(self._tables) >= _TABLES_MAX:
            self._tables = [pa.concat_tables(self._tables).combine_chunks()]

    @property
    def is_full(self) -> bool:
        config = self._config
        return bool(self._tables) and (
            self.rows >= config.buffer_rows_max
            or self._bytes >= config.buffer_bytes_max
            or self._clock.ticks_ms() - self._since >= config.buffer_ms_max
        )

    def take(self) -> list[pa.Table]:
        """All that is here; then nothing is."""
        tables, self._tables = self._tables, []
        self.rows, self._bytes = 0, 0
        return tables
