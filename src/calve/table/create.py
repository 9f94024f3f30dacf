"""A table that is made, or adopted: after either, it is what the configuration asks for.

    Wanted ──▶ exists? ──no──▶ create ──▶ Table
                  │               │ somebody else was faster, or we were, before a crash (case 7)
                  yes             ▼
                  └──────▶ load, compare ──▶ Table · TableDiffers, with everything that differs

Guarantee: an existing table is never changed here and never taken over in part. What was not asked for
(a partition, a sort order, a location left open) is taken from the table as it stands.

Field ids are the catalog's: it numbers a new table afresh, so callers read the schema of the returned table.

Not here: whether the data's columns fit (evolve.py); who may write (claim.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from requests import RequestException
from sqlalchemy.exc import IntegrityError

from calve.model.errors import AccessDenied, BadKey, BadPartition, ConfigError, StoreError, TableDiffers
from calve.model.layout import PartitionField, SortField, TransformKind
from calve.store import Access, check_location
from calve.store.reach import reach
from calve.table.fileio import access_of
from calve.table.layout import describe, from_sort_order, from_spec, to_sort_order, to_spec
from calve.table.location import as_uri, is_local
from calve.table.plan import data_location
from calve.table.schema import check_key, key_of, to_iceberg

FORMAT_VERSION = 2

Identifier = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a configuration asks of a table."""

    schema: pa.Schema
    key: tuple[str, ...] = ()
    """The columns that identify a row of the table; none in append and changelog mode."""
    null_keys: bool = False
    """Keys may be null: the key is then not the table's identifier."""
    partition: tuple[PartitionField, ...] | None = None
    """None takes an existing table's as it is; a new table has none then."""
    sort: tuple[SortField, ...] | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which a table is not what was asked for."""

    what: str
    found: str
    wanted: str
    hint: str

    def __str__(self) -> str:
        return f"{self.what}: found {self.found}, wanted {self.wanted}"


def open_table(catalog: Catalog, identifier: Identifier, wanted: Wanted) -> Table:
    """The table under the name: adopted if it is there, created if not."""
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        return create_table(catalog, identifier, wanted)
    check_table(table, wanted)
    return table


def create_table(catalog: Catalog, identifier: Identifier, wanted: Wanted) -> Table:
    """A new table; or the one that somebody made in the same moment, if it is what was asked for.

    All that can be refused is refused before the catalog is asked for anything.
    """
    properties = _properties(wanted)
    check_places(wanted)
    schema = to_iceberg(wanted.schema, wanted.key, null_keys=wanted.null_keys)
    spec = to_spec(wanted.partition or (), schema)
    order = to_sort_order(wanted.sort or (), schema)
    try:
        location = _location(catalog, identifier, wanted)
        _ensure_namespace(catalog, identifier[:-1])
        table = catalog.create_table(identifier, schema, location, spec, order, properties)
        reach(data_location(table.metadata), access_of(table.io))
        return table
    except TableAlreadyExistsError:
        table = catalog.load_table(identifier)
        check_table(table, wanted)
        return table
    except (ForbiddenError, UnauthorizedError) as error:
        raise AccessDenied(
            f"the catalog does not let us create {'.'.join(identifier)}: {str(error)[:300]}",
            hint="Grant the right to create namespaces and tables, or create the table by hand.",
        ) from error


def check_places(wanted: Wanted) -> None:
    """Refuse places in stores that are not there yet."""
    if wanted.location is not None:
        _check_store("location", wanted.location)
    for name in ("write.data.path", "write.metadata.path"):
        if name in wanted.properties:
            _check_store(f"the table property {name!r}", wanted.properties[name])


def _check_store(what: str, place: str) -> None:
    try:
        check_location(place)
    except StoreError as error:
        raise ConfigError(f"{what}: {error.message}", hint=error.hint) from error


def check_table(table: Table, wanted: Wanted) -> None:
    """Refuse a table that is not what was asked for, with everything that differs."""
    if found := differences(table.metadata, wanted):
        raise TableDiffers(
            f"{'.'.join(table.name())} exists and differs from the configuration: "
            + "; ".join(str(difference) for difference in found),
            hint=" ".join(dict.fromkeys(difference.hint for difference in found)),
        )


def differences(metadata: TableMetadata, wanted: Wanted) -> tuple[Difference, ...]:
    """All in which a table is not what was asked for. Pure."""
    checks = (_format_version, _key, _partition, _sort, _place)
    return tuple(difference for check in checks if (difference := check(metadata, wanted)) is not None)


def _format_version(metadata: TableMetadata, _: Wanted) -> Difference | None:
    if metadata.format_version == FORMAT_VERSION:
        return None
    hint = (
        "Upgrade the table: set its property 'format-version' to 2."
        if metadata.format_version < FORMAT_VERSION
        else "Version 3 cannot be written yet: PyIceberg does not write its metadata. Use version 2."
    )
    return Difference("format version", str(metadata.format_version), str(FORMAT_VERSION), hint)


def _key(metadata: TableMetadata, wanted: Wanted) -> Difference | None:
    schema = metadata.schema()
    found = key_of(schema)
    shown = ", ".join(sorted(found)) or "none"
    try:
        check_key(schema, wanted.key)
    except BadKey as error:
        return Difference("key", f"{shown} ({error.message})", ", ".join(wanted.key), error.hint)
    if not wanted.key or found == frozenset(wanted.key) or (wanted.null_keys and not found):
        return None
    columns = ", ".join(wanted.key)
    return Difference(
        "key", shown, columns, f"Name the table's key, or let an engine SET IDENTIFIER FIELDS {columns}."
    )


def _partition(metadata: TableMetadata, wanted: Wanted) -> Difference | None:
    asked = "what can be written" if wanted.partition is None else describe(wanted.partition)
    try:
        found = from_spec(metadata.spec(), metadata.schema())
    except BadPartition as error:
        return Difference("partition", error.message, asked, error.hint)
    # Neither the order of the fields nor a void one decides where a row goes.
    if wanted.partition is None or _effective(found) == _effective(wanted.partition):
        return None
    hint = "Leave the partition out to take the table's, or let an engine replace its partition fields."
    return Difference("partition", describe(found), asked, hint)


def _effective(fields: tuple[PartitionField, ...]) -> frozenset[PartitionField]:
    return frozenset(field for field in fields if field.transform.kind is not TransformKind.VOID)


def _sort(metadata: TableMetadata, wanted: Wanted) -> Difference | None:
    found = from_sort_order(metadata.sort_order(), metadata.schema())
    if wanted.sort is None or found == wanted.sort:
        return None
    shown = str(metadata.sort_order()) if found is None else describe(found)
    hint = "Leave the sort order out to take the table's, or let an engine set the table's WRITE ORDERED BY."
    return Difference("sort order", shown, describe(wanted.sort), hint)


def _place(metadata: TableMetadata, wanted: Wanted) -> Difference | None:
    if wanted.location is None or as_uri(metadata.location) == as_uri(wanted.location):
        return None
    hint = "Leave the location out to take the table's."
    return Difference("location", as_uri(metadata.location), as_uri(wanted.location), hint)


def _properties(wanted: Wanted) -> dict[str, str]:
    asked = wanted.properties.get("format-version", str(FORMAT_VERSION))
    if asked != str(FORMAT_VERSION):
        raise ConfigError(
            f"the table property 'format-version' is {asked!r}; this release writes version {FORMAT_VERSION}",
            hint="Leave the property out.",
        )
    # A dict of our own: PyIceberg takes the version out of the one that it is given.
    return {**wanted.properties, "format-version": str(FORMAT_VERSION)}


def _ensure_namespace(catalog: Catalog, namespace: Identifier) -> None:
    """Create the namespace, and those above it where they are missing: REST catalogs ask for them."""
    if catalog.namespace_exists(namespace):
        return
    for depth in range(1, len(namespace) + 1):
        try:
            catalog.create_namespace(namespace[:depth])
        except NamespaceAlreadyExistsError:
            continue
        except (IntegrityError, RESTError, RequestException):
            # Of several that make it at once, the late ones fail: PyIceberg's SQL catalog and Iceberg's own
            # server look first, then insert. Or it was made, and the answer was lost.
            if not catalog.namespace_exists(namespace[:depth]):
                raise


def _location(catalog: Catalog, identifier: Identifier, wanted: Wanted) -> str | None:
    """Where a new table goes; None leaves it to the catalog, whose own place then has a scheme."""
    if wanted.location is not None:
        reach(wanted.location, Access.of(catalog.properties))
        return as_uri(wanted.location)
    warehouse = catalog.properties.get("warehouse", "")
    # A REST catalog's warehouse is a name. To the others it is a folder, which users give as a plain path.
    if not warehouse or not isinstance(catalog, MetastoreCatalog):
        return None
    namespace, name = identifier[:-1], identifier[-1]
    known = catalog.load_namespace_properties(namespace) if catalog.namespace_exists(namespace) else {}
    folder = known.get("location")
    place = as_uri(f"{folder}/{name}" if folder else "/".join((warehouse, ".".join(namespace), name)))
    _check_store("the namespace's location" if folder else "warehouse", place)
    reach(place, Access.of(catalog.properties))
    return place if is_local(place) else None
