"""Pipelines: where the tables are that the sinks of a pipeline write. Nothing runs, and no Spark is needed.

    CREATE SINK … ──▶ SinkAsked ──▶ Address of its table, or of the table of each topic

Two sinks of one name on one table would fence one another without end, and two on one checkpoint would each
read what the other has read: `check_apart` refuses both.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from calve.config.url import is_sink_url, url_options
from calve.model.errors import CalveError, ConfigError
from calve.runtime.addresses import Address
from calve.runtime.spark.lakes import is_pattern, table_of
from calve.runtime.spark.said import Said
from calve.sql.defined import Definitions
from calve.sql.pointed import at_statement
from calve.sql.sink import SinkAsked, sink_of
from calve.sql.source import source_of
from calve.sql.tree import CreateSource


def addresses_of(definitions: Definitions, sink: str) -> list[Address]:
    """The tables of a sink."""
    statement = definitions.sink(sink)
    asked = sink_of(statement, definitions)
    with at_statement(statement):
        return [_address(asked, table) for table in _tables(asked, definitions)]


def _tables(asked: SinkAsked, definitions: Definitions) -> Iterator[str]:
    """By their names."""
    if not is_pattern(asked.table):
        yield asked.table
        return
    relation = definitions.relations[asked.source]
    topics = None
    if isinstance(relation, CreateSource):
        source = source_of(relation, definitions)
        topics = getattr(source, "topics", None) or ((source.topic,) if hasattr(source, "topic") else None)
    if topics is None:
        raise ConfigError(
            f"the sink {asked.name!r} writes a table for each topic, and its source does not name them",
            hint="Name the table that is meant, instead of the pipeline.",
            about="table",
        )
    for topic in topics:
        yield table_of(topic, asked.table)


def check_understood(definitions: Definitions, sinks: Sequence[str]) -> None:
    """Refuse what is wrong with a sink or its source, as far as statements alone show it: at once, and not
    when Spark has started."""
    for sink in sinks:
        statement = definitions.sink(sink)
        sink_of(statement, definitions)
        source = definitions.relations[statement.source]
        if isinstance(source, CreateSource):
            source_of(source, definitions)


def check_apart(definitions: Definitions, sinks: Sequence[str]) -> None:
    """Refuse sinks that would be in one another's way. What else is wrong with one is told when it starts."""
    tables: dict[Hashable, str] = {}
    checkpoints: dict[str, str] = {}
    for sink in sinks:
        try:
            addresses = addresses_of(definitions, sink)
            checkpoint = sink_of(definitions.sink(sink), definitions).checkpoint
        except CalveError:
            continue
        with at_statement(definitions.sink(sink)):
            _check_apart(sink, addresses, tables)
            if (other := checkpoints.setdefault(checkpoint, sink)) != sink:
                raise ConfigError(
                    f"the sink {sink!r} has the checkpoint of the sink {other!r}, {checkpoint}",
                    hint="Leave CHECKPOINT out of one of them: then each has a folder of its own.",
                    about="checkpoint",
                )


def _check_apart(sink: str, addresses: Sequence[Address], tables: dict[Hashable, str]) -> None:
    """`tables`: those of the sinks before, and whose they are."""
    for one in addresses:
        place = (one.catalog.type, one.catalog.uri, one.catalog.warehouse)
        other = tables.setdefault((*place, one.identifier, one.sink.sink_id), sink)
        if other != sink:
            raise ConfigError(
                f"the sink {sink!r} writes {one.name} under the name of the sink {other!r}: each would stop "
                "the other",
                hint="Let one of them write another table, or give it a name of its own: "
                f"WITH (WRITER ID = '{sink}').",
                about="table",
            )


def _address(asked: SinkAsked, table: str) -> Address:
    said = Said(by_option=dict(asked.options))
    said.take_url(table)
    lake = said.lake(table, {})
    named = asked.options.get("writer.id")
    if named is None and is_sink_url(table):
        named = url_options(table).get("writer.id")
    sink_id = None if named is None else str(named)
    found = Address(lake.catalog, (*lake.namespace, lake.table), sink_id, asked.checkpoint)
    _ = found.sink  # refused here, where it is known which statement says it
    return found
