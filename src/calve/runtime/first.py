"""First rows: the table that they ask for, and whether they would fit it, before there is one.

    config, first rows ──check_first──▶ Wanted ──▶ create

Guarantee: all that can be refused of the first rows, of the key, the layout and the table's properties is
refused here, before a namespace, a table or a file is made. A table that is left behind by a mistake is
found, and adopted, by the next start, with the mistake's columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from calve.config.sink import Mode, NullKeys, SinkConfig
from calve.runtime.rows import reading_of
from calve.store.reach import reach
from calve.table.create import Wanted, check_table
from calve.table.fileio import access_of
from calve.table.layout import to_sort_order, to_spec
from calve.table.plan import data_location
from calve.table.properties import check_dictionary, column_metrics, file_properties
from calve.table.schema import check_key, to_arrow, to_iceberg
from calve.writer.changes import Arrival, changes
from calve.writer.collapse import check_sequence_types

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table


def wanted_table(config: SinkConfig, schema: pa.Schema) -> Wanted:
    """What the configuration asks of a table with these columns."""
    return Wanted(
        schema=schema,
        key=config.key if config.mode is Mode.UPSERT else (),
        null_keys=config.null_keys is NullKeys.ALLOW,
        partition=config.partition or None,
        sort=config.sort or None,
        location=config.location,
        properties=config.table_properties,
    )


def check_first(config: SinkConfig, arrival: Arrival, before: Iterable[Arrival] = ()) -> Wanted:
    """The table that the first rows ask for; an error if they, the settings, or the deletes that came before
    them would not fit it."""
    wanted = wanted_table(config, arrival.rows.schema)
    schema = to_iceberg(wanted.schema, wanted.key, null_keys=wanted.null_keys)
    _check_layout(wanted, schema)
    check_dictionary(config.parquet.dictionary, schema)
    # A changelog's key is not the table's, but copies are found by it.
    check_key(schema, config.key)
    for each in (*before, arrival):
        changes(reading_of(config), each, to_arrow(schema))
    hidden = () if arrival.hidden is None else arrival.hidden.schema
    check_sequence_types(pa.schema([*to_arrow(schema), *hidden]), config.sequence_by)
    return wanted


def _check_layout(wanted: Wanted, schema: Schema) -> None:
    to_spec(wanted.partition or (), schema)
    to_sort_order(wanted.sort or (), schema)
    column_metrics(wanted.properties, schema)
    file_properties(wanted.properties)


def check_found(config: SinkConfig, table: Table) -> None:
    """Refuse a table that is there and is not what the configuration asks for, before it is claimed."""
    check_table(table, wanted_table(config, pa.schema([])))
    reach(data_location(table.metadata), access_of(table.io))
    if not config.schema_evolution:
        # With it, the column may come with the rows: it is looked for when their files are planned.
        check_dictionary(config.parquet.dictionary, table.schema())
