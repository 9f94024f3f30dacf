"""Arguments that commands share: which table is meant, which of its sinks, and where the catalog is.

What a person names is a *target*: it stands for one table or several, each with its catalog and, where one
was said, its sink.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from calve.cli.console import AsJson
from calve.cli.pipeline import read_file, sinks_of
from calve.model.errors import ConfigError, TableMissing

if TYPE_CHECKING:
    from calve.runtime.addresses import Address

T = TypeVar("T")

__all__ = [
    "NOT_THERE",
    "AsJson",
    "Kind",
    "Sink",
    "Target",
    "Uri",
    "Warehouse",
    "catalog_said",
    "is_file",
    "looked_at",
    "not_there",
    "refuse_catalog",
    "targets",
]

Target = Annotated[
    str,
    typer.Argument(
        metavar="TABLE|FILE",
        help="A table: catalog.namespace.table, or its iceberg:// URL. Or a pipeline: file.sql.",
    ),
]
Sink = Annotated[
    str | None,
    typer.Option(help="The stream's writer.id, where several write to the table; of a pipeline, its sink."),
]
Uri = Annotated[str | None, typer.Option(help="Where the catalog is, if it is not configured.")]
Warehouse = Annotated[str | None, typer.Option(help="Where its tables are; alone: SQLite in that folder.")]
Kind = Annotated[str | None, typer.Option(help="What it speaks; follows from its uri.")]


def catalog_said(uri: str | None, warehouse: str | None, kind: str | None) -> dict[str, str]:
    """What was said of the catalog."""
    said = {"uri": uri, "warehouse": warehouse, "type": kind}
    return {name: value for name, value in said.items() if value is not None}


def is_file(name: str) -> bool:
    """Whether a target is a pipeline."""
    return name.endswith(".sql")


def refuse_catalog(file: str, said: dict[str, str]) -> None:
    """A pipeline says where its catalogs are."""
    if said:
        raise ConfigError(
            f"{file} says where its catalogs are, and so does the command line", hint="Leave it out here."
        )


def looked_at(name: str, address: Address, look: Callable[[Address], T]) -> T | None:
    """What a look at a table of a target shows; `None` where it is a pipeline's, whose sink has not made it
    yet. A table that is named itself must be there."""
    from calve.table.catalogs import is_there

    if not is_file(name):
        return look(address)
    if not is_there(address.catalog):
        return None
    try:
        return look(address)
    except TableMissing:
        return None


def not_there(address: Address) -> dict[str, object]:
    """What programs are told of a table that is not there yet."""
    return {"table": address.name, "missing": True}


NOT_THERE = "It is not there yet: its sink has not run."


def targets(name: str, sink: str | None, said: dict[str, str]) -> tuple[Address, ...]:
    """The tables that a target stands for: one by its name or URL, or those of a pipeline."""
    from calve.runtime.addresses import find_address
    from calve.runtime.pipelines import addresses_of

    if not is_file(name):
        return (find_address(name, sink, said),)
    refuse_catalog(name, said)
    definitions = read_file(Path(name))
    sinks = sinks_of(definitions, None if sink is None else [sink], Path(name))
    return tuple(address for one in sinks for address in addresses_of(definitions, one))
