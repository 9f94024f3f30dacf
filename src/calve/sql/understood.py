"""Understood: whether a statement means something. What is wrong with it is told when it is read, and not
when it is used: also of what nobody uses.

    CREATE … ──▶ options of its kind, all of them known ──▶ nothing, or an error with its place
"""

from __future__ import annotations

from dataclasses import replace

from calve.sql.connect import aws_properties, catalog_options, kafka_options, postgres_uri
from calve.sql.defined import Definitions
from calve.sql.sink import sink_of
from calve.sql.source import source_of
from calve.sql.tree import Create, CreateConnection, CreateSink, CreateSinkTable, CreateSource, Target

_OPENED = {
    Target.ICEBERG: catalog_options,
    Target.AWS: aws_properties,
    Target.KAFKA: kafka_options,
    Target.POSTGRES: postgres_uri,
}


def understand(statement: Create, known: Definitions) -> None:
    """Refuse a statement that means nothing."""
    match statement:
        case CreateConnection():
            _OPENED[statement.target](statement, known)
        case CreateSource():
            source_of(statement, known)
        case CreateSink() | CreateSinkTable():
            sink_of(statement, known)


def understand_all(known: Definitions) -> None:
    """The same for all that is defined. Secrets are not read: those that nobody uses need not be there."""
    unread = replace(known, without_secrets=True)
    for every in (known.connections, known.sources, known.sinks):
        for statement in every.values():
            understand(statement, unread)
