"""calve.read behind the door of the readers: the same questions, the same form of answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import calve
from tests.support.lake import TableAt


class CalveReader:
    """Our own reader. It finds the catalog in the session, as Iceberg's runtime does."""

    name = "calve.read"

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    def read(self, table: TableAt, snapshot_id: int, where: str | None = None) -> pa.Table:
        frame = calve.read(self.spark, table.name, at=snapshot_id)
        return (frame if where is None else frame.where(where)).toArrow()
