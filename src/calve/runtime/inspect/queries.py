"""Queries: a snapshot in the words of engines, ready to be pasted. Pure.

Names are quoted as each engine quotes them, texts too: a name with a quote in it is a name, never a piece of
the query.
"""

from __future__ import annotations

import json
import re

from calve.config.catalog import CatalogConfig
from calve.runtime.addresses import Address

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def queries(address: Address, metadata_location: str, snapshot_id: int, at: str) -> dict[str, str]:
    """By engine. `at` is the time that was asked for, as it was given."""
    catalog, parts = address.catalog.name, address.identifier
    spark = ".".join(_quoted(part, "`") for part in (catalog, *parts))
    catalog_said = _catalog(address.catalog)
    # Trino knows one level of namespaces.
    trino = ".".join(_quoted(part, '"') for part in (catalog, ".".join(parts[:-1]), parts[-1]))
    return {
        "duckdb": f"SELECT * FROM iceberg_scan({_text(metadata_location)}, "
        f"snapshot_from_id = {snapshot_id}::UBIGINT);",
        "spark": f"SELECT * FROM {spark} VERSION AS OF {snapshot_id};",
        "trino": f"SELECT * FROM {trino} FOR VERSION AS OF {snapshot_id};",
        "calve": f"calve.read(spark, {_python(spark)}, at={_python(at)}, catalog={catalog_said})",
    }


def _catalog(config: CatalogConfig) -> str:
    """Where the catalog is: its name alone says nothing to who does not know the pipeline. A login is not
    shown (P10): `login` stands for it."""
    said = {"type": str(config.type), "uri": config.uri, "warehouse": config.warehouse}
    parts = [f"{_python(name)}: {_python(str(value))}" for name, value in said.items() if value is not None]
    login = ["**login"] if config.properties or config.storage else []
    return "{" + ", ".join([*parts, *login]) + "}"


def _quoted(name: str, mark: str) -> str:
    return name if _PLAIN.fullmatch(name) else f"{mark}{name.replace(mark, mark * 2)}{mark}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _python(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
