"""Names: the table and the sinks of a quarantine, and how its rows were read.

    target        <table>              sinks  <sink>             <sink>.replay
    quarantine    <table>__quarantine  sinks  <sink>.quarantine  <sink>.again
                                              (of the stream)    (of replays)

Every row of a quarantine carries how the stream read it: a replay needs no configuration beside the tables.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from pyiceberg.table.metadata import TableMetadata

from calve.config.sink import Mode, NullKeys, SinkConfig
from calve.model.columns import RESERVED
from calve.model.errors import ConfigError, Diverged
from calve.model.progress import claimed_property, replay_sink_id

SUFFIX = "__quarantine"
SOURCE = "micro-batch"
"""What the times of a quarantine mean."""
REPLAY_SOURCE = "replay"

_ENDS = ".quarantine"


def quarantine_config(config: SinkConfig) -> SinkConfig:
    """The sink of rows that do not fit: a table beside the target."""
    return _beside(config, f"{config.sink_id}{_ENDS}")


def again_config(config: SinkConfig) -> SinkConfig:
    """The sink of rows that a replay puts back."""
    return _beside(config, f"{config.sink_id}.again")


def _beside(config: SinkConfig, sink_id: str) -> SinkConfig:
    return SinkConfig(
        namespace=config.namespace,
        table=f"{config.table}{SUFFIX}",
        sink_id=sink_id,
        catalog=config.catalog,
        mode=Mode.APPEND,
        fence=config.fence,
        commit_attempts_max=config.commit_attempts_max,
        commit_timeout_ms=config.commit_timeout_ms,
    )


def sink_of(quarantine: TableMetadata, table_name: str, said: str | None) -> str:
    """The sink whose rows are meant: the one that was said, or the only one that there is."""
    start = claimed_property("")
    known = sorted(
        name.removeprefix(start).removesuffix(_ENDS)
        for name in quarantine.properties
        if name.startswith(start) and name.endswith(_ENDS)
    )
    if said is not None and said not in known:
        raise ConfigError(
            f"the quarantine of {table_name} has no rows of a sink {said!r}",
            hint=f"There are: {', '.join(known) or 'none'}.",
        )
    if said is None and len(known) > 1:
        raise ConfigError(
            f"several sinks have rows in the quarantine of {table_name}: {', '.join(known)}",
            hint="Say which one is meant: --sink, or sink=….",
        )
    if said is None and not known:
        raise Diverged(
            f"{table_name}{SUFFIX} is no quarantine: no sink has claimed it",
            hint="Was it made by hand, or by an older release? Only a stream with "
            ".on_bad_row('quarantine') makes one.",
        )
    return said or known[0]


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How a stream read its rows: all of its configuration that a replay needs."""

    mode: str
    key: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    op_column: str | None = None
    """Only where it was named: then every row has it."""
    changelog: tuple[str, str] | None = None
    null_keys: bool = False
    time_column: str | None = None

    @classmethod
    def of(cls, config: SinkConfig, time_column: str | None) -> ReadAs:
        changelog = config.mode is Mode.CHANGELOG
        return cls(
            mode=str(config.mode),
            key=config.key,
            # What an envelope orders changes by is not in the table: nothing there tells how old a row is.
            sequence_by=tuple(name for name in config.sequence_by if not name.startswith(RESERVED)),
            op_column=config.op_column if config.op_column_is_explicit else None,
            changelog=(config.changelog_op_column, config.changelog_time_column) if changelog else None,
            null_keys=config.null_keys is NullKeys.ALLOW,
            time_column=None if time_column is not None and time_column.startswith(RESERVED) else time_column,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ReadAs:
        try:
            said = json.loads(text)
            lists = {name: tuple(said[name]) for name in ("key", "sequence_by", "changelog") if said[name]}
            return cls(**{name: value or None for name, value in said.items()} | _empty(said) | lists)
        except (KeyError, TypeError, ValueError) as error:
            raise Diverged(
                f"a row of the quarantine does not say how it was read: {error!r}",
                hint="It was changed by hand, or a newer release wrote it. Use that release.",
            ) from error

    @classmethod
    def of_table(cls, target: TableMetadata, sink_id: str) -> ReadAs:
        """What the table itself remembers of its sink, where no row is left to say more."""
        mode, _, key = target.properties.get(claimed_property(sink_id), "append").partition(" (")
        return cls(mode, tuple(key.removesuffix(")").split(", ")) if key else ())

    def target(self, config: SinkConfig) -> SinkConfig:
        """The sink of replayed rows in the target; `config` names the table, and the sink of the stream."""
        settings: dict[str, Any] = {"mode": Mode(self.mode), "key": self.key, "sequence_by": self.sequence_by}
        if self.op_column is not None:
            settings["op_column"] = self.op_column
        if self.changelog is not None:
            settings["changelog_op_column"], settings["changelog_time_column"] = self.changelog
        if self.null_keys:
            settings["null_keys"] = NullKeys.ALLOW
        return SinkConfig(
            namespace=config.namespace,
            table=config.table,
            sink_id=replay_sink_id(config.sink_id),
            catalog=config.catalog,
            fence=config.fence,
            **settings,
        )


def _empty(said: dict[str, Any]) -> dict[str, Any]:
    return {"key": (), "sequence_by": (), "null_keys": bool(said["null_keys"])}
