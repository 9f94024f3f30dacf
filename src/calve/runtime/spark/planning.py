"""Planned: a table that a stream would write, as far as it is known before the first row."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from calve.config.stream import StreamConfig
from calve.runtime.spark.lakes import Lake


@dataclass(frozen=True, slots=True)
class Planned:
    """What is asked of one table, and the columns that it gets."""

    lake: Lake
    config: StreamConfig | None = None
    """`None`, and no columns: the first messages will show them."""
    columns: pa.Schema | None = None
    source: str = ""
    """What times mean."""
    topic: str | None = None
