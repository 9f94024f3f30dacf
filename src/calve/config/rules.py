"""Rules: what two settings of a sink mean together. Each line refuses one contradiction, and says why.

A setting that would have no effect is refused too: who set it expects something that would not happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calve.config.layout import first_repeated
from calve.config.settings import label
from calve.model.errors import About, BadKey, ConfigError

if TYPE_CHECKING:
    from calve.config.sink import SinkConfig

_ONLY_UPSERT = ("inserts_are_new",)
_ONLY_CHANGELOG = ("changelog_op_column", "changelog_time_column")


def check_together(config: SinkConfig) -> None:
    """Raise the first contradiction."""
    _check_key(config)
    _check_mode(config)
    _check_reserved(config)
    _check_memory(config)
    if config.inserts_are_new and config.delivery == "at-least-once":
        raise ConfigError(
            f"{label('inserts_are_new')} cannot be promised with {label('delivery')} 'at-least-once'",
            hint="An epoch that is written again inserts its keys again. Use 'exactly-once' or leave it out.",
            about="inserts_are_new",
        )


def _check_key(config: SinkConfig) -> None:
    if config.mode == "upsert" and not config.key:
        raise BadKey(
            f"upsert mode has no {label('key')}",
            hint="Name the columns that identify a row: key=('id',), or 'equality.delete.columns' = 'id'.",
        )
    if config.mode == "append" and config.key:
        raise BadKey(
            f"append mode takes no {label('key')}: it writes every row, also one whose key it wrote before",
            hint="Set the mode ('write.mode') to 'upsert' for one row a key, or leave the key out.",
        )
    for field in ("key", "sequence_by"):
        repeated = first_repeated(getattr(config, field))
        if repeated is not None:
            raise BadKey(
                f"{label(field)} names {repeated!r} twice",
                hint="Name each column once.",
                about=About(field, repeated),
            )
    if config.null_keys == "allow" and not config.key:
        raise BadKey(
            f"{label('null_keys')} is 'allow', but there is no key",
            hint="Name the key, or leave null_keys out.",
            about="null_keys",
        )


def _check_mode(config: SinkConfig) -> None:
    given = config.model_fields_set
    useless = [field for field in _ONLY_UPSERT if config.mode != "upsert" and getattr(config, field)]
    useless += [field for field in _ONLY_CHANGELOG if config.mode != "changelog" and field in given]
    if config.sequence_by and not config.key:
        useless.append("sequence_by")  # it tells the changes of a key apart
    if config.mode == "append" and config.op_column_is_explicit:
        useless.append("op_column")
    if useless:
        raise ConfigError(
            f"{label(useless[0])} has no effect in {config.mode} mode",
            hint="Leave it out, or set the mode ('write.mode') that it belongs to.",
            about=useless[0],
        )


def _check_reserved(config: SinkConfig) -> None:
    """Columns that the sink takes off or adds cannot carry a key, a partition or an order of the data."""
    if config.mode == "append":
        return
    added: dict[str, str] = {}
    if config.mode == "changelog":
        if config.changelog_op_column == config.changelog_time_column:
            raise ConfigError(
                f"{label('changelog_op_column')} and {label('changelog_time_column')} have one name",
                hint="Give each a name of its own.",
                about="changelog_time_column",
            )
        added = {getattr(config, field): field for field in _ONLY_CHANGELOG}
    # A changelog may be laid out by the columns that it adds: they are in the table. The op column is not.
    taken_off = {} if config.op_column in added else {config.op_column: "op_column"}
    for field in ("key", "sequence_by", "partition", "sort"):
        _refuse(config, field, {**taken_off, **added} if field == "key" else taken_off)


def _refuse(config: SinkConfig, field: str, reserved: dict[str, str]) -> None:
    for entry in getattr(config, field):
        name = entry if isinstance(entry, str) else entry.column
        if name in reserved:
            raise BadKey(
                f"{label(field)} names {name!r}, which is the sink's {reserved[name]} and not of the data",
                hint=f"Name another column, or give {label(reserved[name])} another name.",
                about=About(field, str(entry)),
            )


def _check_memory(config: SinkConfig) -> None:
    for field, size in (
        ("buffer_bytes_max", config.buffer_bytes_max),
        ("parquet.row_group_bytes", config.parquet.row_group_bytes),
    ):
        if size > config.memory_bytes_max:
            raise ConfigError(
                f"{label(field)} is {size}, more than the {config.memory_bytes_max} of 'memory.limit'",
                hint="Lower the one or raise the other.",
                about=field,
            )
