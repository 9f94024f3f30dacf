"""How a sink's configuration has its rows read: the plain values that go to the writer, also in executors."""

from __future__ import annotations

from calve.config.sink import Mode, NullKeys, SinkConfig
from calve.writer.changes import Reading


def reading_of(config: SinkConfig) -> Reading:
    """How rows of this sink are read as changes."""
    added = (config.changelog_op_column, config.changelog_time_column)
    return Reading(
        key=config.key,
        sequence=config.sequence_by,
        op_column=None if config.mode is Mode.APPEND else config.op_column,
        op_required=config.op_column_is_explicit,
        changelog=added if config.mode is Mode.CHANGELOG else None,
        null_keys=config.null_keys is NullKeys.ALLOW,
        inserts_are_new=config.inserts_are_new,
    )
