"""Read: any snapshot of a table as a DataFrame, without a jar.

    calve.read(spark, "lake.sales.orders")              main as it is now
    calve.read(spark, "lake.sales.orders", at="eod")    as of a tag, a branch, a snapshot, a source's time
    calve.read(…, where="day = DATE '2026-11-17'")      those rows; files that have none are not opened

The catalog is found as for a stream: in the call, in PyIceberg's configuration, in the session's, or embedded
in a local folder. The snapshot is chosen when `read` is called: a frame shows the same rows however often it
is read, as long as the snapshot has not expired. Only metadata is read before a query runs.

Not here: which deletes reach which file (table/scan.py), how files become rows (rows.py).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyspark import __version__ as spark_version
from pyspark.sql import DataFrame, SparkSession

from calve.config.catalog import CatalogConfig
from calve.config.units import nearest
from calve.model.columns import RESERVED
from calve.model.errors import CalveError, ConfigError, TableMissing, Unreadable
from calve.reader.columns import FIELD_ID, Names
from calve.runtime.spark.carried import Carried
from calve.runtime.spark.condition import condition_of
from calve.runtime.spark.constants import partition_constants
from calve.runtime.spark.lakes import Lake, find_lake
from calve.runtime.spark.native import Hadoop, Native
from calve.runtime.spark.rows import Rows
from calve.runtime.spark.shapes import Naming, name_by_id, own_name, spark_can_fill
from calve.store import Access, store_for
from calve.table.at import snapshot_at
from calve.table.catalogs import check_there, open_catalog
from calve.table.commit import load, reaching
from calve.table.fields import names_are_reused, structs_may_be_hollow
from calve.table.fileio import access_of
from calve.table.prune import Pruner
from calve.table.scan import ScanPlan, plan_scan

_log = logging.getLogger("calve.spark")

_NAME_MAPPING = "schema.name-mapping.default"
_SHOWN_MAX = 20


def read(
    spark: SparkSession,
    table: str,
    at: int | str | datetime | None = None,
    *,
    where: str | None = None,
    sink: str | None = None,
    catalog: Mapping[str, Any] | CatalogConfig | None = None,
) -> DataFrame:
    """The rows of a table as of a snapshot, with its deletes applied.

    `table`: `lake.sales.orders`, or an iceberg:// URL. `at`: a snapshot's id, the name of a tag or branch, or
    a time of the source, as it prints it or as a wall time; `snapshot:<id>`, `tag:<name>`, `branch:<name>` or
    `time:<time>` say which; main as it is now where it is left out. `where`: a condition in Spark's SQL; the
    frame is the same as with `.where(…)` after the call, but files that hold no such row, by what the table's
    metadata says of them, are not opened. `sink`: whose time it is, where several
    write to the table. `catalog`: what the catalog is, where it is not configured:
    `{"type": "sql", "uri": …, "warehouse": …}`.
    """
    _check_session(spark)
    settings = dict(spark.conf.getAll)
    lake = find_lake(table, _said(catalog), settings)
    check_there(lake.catalog)
    opened = open_catalog(lake.catalog)
    try:
        found = _load(opened, lake)
        pinned = snapshot_at(found, at, sink)
        only = None if where is None else _only(spark, found, pinned.schema, where)
        plan = plan_scan(found.io, found.metadata, pinned.snapshot, pinned.schema, only=only)
    finally:
        opened.close()
    frame = frame_of(spark, settings, found, plan)
    return frame if where is None else frame.where(where)


def _only(spark: SparkSession, table: Table, schema: Schema, where: str) -> Pruner | None:
    """The files that a filter leaves over; `None` if that may be any."""
    condition = condition_of(spark, schema, where)
    return None if condition is None else Pruner(table.metadata, schema, condition)


def frame_of(spark: SparkSession, settings: Mapping[str, str], table: Table, plan: ScanPlan) -> DataFrame:
    """The frame of a plan, in a session that is set so."""
    access = access_of(table.io)
    names = Names(_mapping(table))
    carried = Carried(spark, access, names, partition_constants(table.metadata, plan.schema))
    hadoop = Hadoop(spark, access)
    why = _why_carried(table, plan, hadoop)
    if why is not None:
        _log.info("%s is read by pyarrow: %s", ".".join(table.name()), why)
        return Rows(spark, plan, None, carried).frame()
    native = Native(spark, settings, hadoop, _naming(table, plan))
    return Rows(spark, plan, native, carried).frame()


def _why_carried(table: Table, plan: ScanPlan, hadoop: Hadoop) -> str | None:
    """Why Spark's own reader would read a table wrongly; `None` if it does not."""
    if _NAME_MAPPING in table.properties:
        return "some of its files have no field ids, but are mapped by names"
    if not all(map(spark_can_fill, plan.schema.fields)):
        return "a column has a default that Spark cannot fill in"
    if spark_version.startswith("4.0.") and structs_may_be_hollow(table.metadata, plan.schema):
        return "Spark 4.0 takes a struct for null whose fields were all added later"
    near = next((file.path for file in plan.data if hadoop.path(file.path) is not None), None)
    if near is not None and not _has_ids(near, hadoop.access):
        return "its files have no field ids"
    return None


def _has_ids(path: str, access: Access) -> bool:
    """Whether a file has field ids. A look at one is enough: files without them come from elsewhere, all at
    once. Where some have ids and others not, without a mapping, Spark stops with an error that says so."""
    with store_for(path, access).open(path) as stream:
        schema = pq.read_schema(stream)
    return any(FIELD_ID in (field.metadata or {}) for field in schema)


def _naming(table: Table, plan: ScanPlan) -> Naming:
    names = [field.name.casefold() for field in plan.schema.fields]
    ours = any(name == "_metadata" or name.startswith(RESERVED) for name in names)
    if ours or len(set(names)) < len(names) or names_are_reused(table.metadata, plan.schema):
        return name_by_id
    return own_name


def _mapping(table: Table) -> list[dict[str, Any]] | None:
    text = table.properties.get(_NAME_MAPPING)
    if text is None:
        return None
    try:
        mapping = json.loads(text)
    except ValueError:
        mapping = None
    if not isinstance(mapping, list):
        raise Unreadable(
            f"the property {_NAME_MAPPING!r} of {'.'.join(table.name())} is no list of fields in JSON",
            hint="Set it anew, or remove it: files without field ids are then read by their names.",
        )
    return mapping


def _check_session(spark: object) -> None:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigError(
            "the session is of Spark Connect, and calve reads files in a session of the driver's own",
            hint="Run it where the driver runs: with spark-submit, or SparkSession.builder.master(…).",
        )
    if not isinstance(spark, SparkSession):
        raise ConfigError(
            f"calve.read was given a {type(spark).__name__} in place of a session",
            hint="calve.read(spark, 'lake.sales.orders').",
        )


def _said(catalog: Mapping[str, Any] | CatalogConfig | None) -> dict[str, Any]:
    """What the call says of the catalog. Properties may stand beside its type, as in `.catalog(…)`."""
    if isinstance(catalog, CatalogConfig):
        return {name: getattr(catalog, name) for name in catalog.model_fields_set}
    own = {name: value for name, value in (catalog or {}).items() if name in CatalogConfig.model_fields}
    more = {name: value for name, value in (catalog or {}).items() if name not in own}
    return {**own, "properties": {**own.get("properties", {}), **more}} if more else own


def _load(catalog: Catalog, lake: Lake) -> Table:
    identifier = (*lake.namespace, lake.table)
    try:
        return load(catalog, identifier)
    except TableMissing as error:
        raise TableMissing(error.message, hint=_others(catalog, lake)) from error


def _others(catalog: Catalog, lake: Lake) -> str:
    """What there is in place of a table that is not."""
    try:
        with reaching(lake.namespace):
            names = sorted(name[-1] for name in catalog.list_tables(lake.namespace))
    except CalveError:  # a login that may not list, or no such namespace: the name is what we know
        names = []
    place = ".".join(lake.namespace)
    near = nearest(lake.table, names)
    if near is not None:
        return f"Did you mean {place}.{near}?"
    if names:
        more = ", …" if len(names) > _SHOWN_MAX else ""
        return f"In {place} there are: {', '.join(names[:_SHOWN_MAX])}{more}."
    return f"No table is known in {place}: is the name of the namespace right, and that of the catalog?"
