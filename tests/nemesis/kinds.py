"""Kinds of streams and tables that the nemesis works on.

mode: what a row of the stream becomes        frontier: how the stream tells its time
"""

from __future__ import annotations

from dataclasses import dataclass

UNITS_A_MS = 1000
"""Where time is a timestamp, the sink counts it in microseconds, and the stream in milliseconds."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A stream, and the table that it is written to."""

    name: str
    mode: str
    frontier: str
    """none · maximum · mark · watermark · resolved"""
    interval: int | None = None
    partitioned_by: tuple[str, ...] = ()
    quarantine: bool = False
    """Some rows do not fit, and go to the table beside."""

    @property
    def is_feed(self) -> bool:
        """Whether it is a changefeed of several tables (changefeeds.py)."""
        return self.frontier == "resolved"

    @property
    def is_timed(self) -> bool:
        return self.frontier != "none"

    @property
    def unit(self) -> int:
        """What a unit of the stream's time is in the sink's."""
        return UNITS_A_MS if self.frontier == "watermark" else 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that are compared."""
        added = ("_calve_op",) if self.mode == "changelog" else ()
        return ("id", "v", "region", "at", "serial", *added)


_ALL = (
    # The partition does not follow from the key: deletes are global, and keys move between partitions.
    Kind("upsert-maximum", "upsert", "maximum", partitioned_by=("region",)),
    Kind("upsert-numbered", "upsert", "none"),
    Kind("append-interval", "append", "maximum", interval=150, partitioned_by=("region",)),
    Kind("upsert-mark", "upsert", "mark", partitioned_by=("bucket(3, id)",)),
    Kind("changelog-maximum", "changelog", "maximum"),
    Kind("upsert-interval", "upsert", "maximum", interval=250),
    Kind("append-numbered", "append", "none", partitioned_by=("region",)),
    Kind("upsert-watermark", "upsert", "watermark"),
    Kind("upsert-quarantine", "upsert", "maximum", quarantine=True),
    Kind("changefeed", "upsert", "resolved"),
)
KINDS = {kind.name: kind for kind in _ALL}
