"""First rows: the table that they ask for, and whether they would fit it, before there is one.

    config, first rows ──check_first──▶ Wanted ──▶ create

Guarantee: all that can be refused of the first rows, of the key, the layout and the table's properties is
refused here, before a namespace, a table or a file is made. A table that is left behind by a mistake is
found, and adopted, by the next start, with the mistake's columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from calve.config.sink import Mode, NullKeys, SinkConfig
from calve.runtime.rows import Arrival, changes
from calve.table.create import Wanted
from calve.table.layout import to_sort_order, to_spec
from calve.table.properties import column_metrics, file_properties
from calve.table.schema import check_key, to_arrow, to_iceberg
from calve.writer.collapse import check_sequence_types

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


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


def check_first(config: SinkConfig, arrival: Arrival) -> Wanted:
    """The table that the first rows ask for; an error if they, or the settings, would not fit it."""
    wanted = wanted_table(config, arrival.rows.schema)
    schema = to_iceberg(wanted.schema, wanted.key, null_keys=wanted.null_keys)
    _check_layout(wanted, schema)
    # A changelog's key is not the table's, but copies are found by it.
    check_key(schema, config.key)
    changes(config, arrival, to_arrow(schema))
    check_sequence_types(to_arrow(schema), config.sequence_by)
    return wanted


def _check_layout(wanted: Wanted, schema: Schema) -> None:
    to_spec(wanted.partition or (), schema)
    to_sort_order(wanted.sort or (), schema)
    column_metrics(wanted.properties, schema)
    file_properties(wanted.properties)
