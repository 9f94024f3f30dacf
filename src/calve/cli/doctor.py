"""`calve doctor`: what this machine, a catalog and its store can do, tried for real, a line each.

Of a pipeline: whether its secrets can be read, its sources reached, its sinks understood; and each catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from calve.cli import layout
from calve.cli.arguments import Kind, Sink, Uri, Warehouse, catalog_said, is_file, refuse_catalog
from calve.cli.console import AsJson, columns, show, show_json, working
from calve.cli.ground import FAILED
from calve.cli.pipeline import read_file, sinks_of

if TYPE_CHECKING:
    from calve.config.catalog import CatalogConfig
    from calve.runtime.diagnosis import Check, Diagnosis

_STYLES = {"ok": "green", "note": "yellow", "failed": "bold red", "skipped": "dim"}
_NAME_COLUMNS = 17

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="TABLE|FILE",
        help="A table whose catalog is tried, or its iceberg:// URL; or a pipeline: file.sql. None: the "
        "embedded catalog.",
        show_default=False,
    ),
]


def doctor(
    target: Target = None,
    as_json: AsJson = False,
    namespace: Annotated[
        str | None, typer.Option(help="One that is there, for a login that may not create any.")
    ] = None,
    spark: Annotated[bool, typer.Option(help="Try Java and Spark, too.")] = True,
    sink: Sink = None,
    catalog_uri: Uri = None,
    warehouse: Warehouse = None,
    catalog_type: Kind = None,
) -> None:
    """Try all that a sink needs of this machine, of a catalog or of a pipeline, and say what to do about what
    fails."""
    from calve.runtime.doctor import doctor as visit_catalog
    from calve.runtime.machine import look_at_machine

    said = catalog_said(catalog_uri, warehouse, catalog_type)
    if target is not None and is_file(target):
        refuse_catalog(target, said)
        _pipeline(Path(target), sink, namespace=namespace, spark=spark, as_json=as_json)
        return
    config = _catalog(target, said)
    with working() as say:
        machine = look_at_machine(spark=spark, say=say)
        say("the catalog is tried …")
        catalog = visit_catalog(config, namespace=namespace)
    if as_json:
        ok = machine.ok and catalog.ok
        show_json({"ok": ok, "machine": machine.as_dict(), "catalog": catalog.as_dict()})
    _end([machine, catalog], as_json=as_json)


def _pipeline(file: Path, sink: str | None, *, namespace: str | None, spark: bool, as_json: bool) -> None:
    from calve.runtime.doctor import doctor as visit_catalog
    from calve.runtime.machine import look_at_machine
    from calve.runtime.pipeline_visit import catalogs_of, visit

    definitions = read_file(file)
    sinks = sinks_of(definitions, None if sink is None else [sink], file)
    with working() as say:
        machine = look_at_machine(spark=spark, say=say)
        say("the pipeline is looked at …")
        lacks_kafka = any(check.name == "kafka" and check.outcome == "note" for check in machine.checks)
        pipeline = visit(definitions, sinks, version("pyspark") if lacks_kafka else None)
        pipeline.place = str(file)
        say("its catalogs are tried …")
        catalogs = [visit_catalog(one, namespace=namespace) for one in catalogs_of(definitions, sinks)]
    every = [machine, pipeline, *catalogs]
    if as_json:
        show_json(
            {
                "ok": all(one.ok for one in every),
                "machine": machine.as_dict(),
                "pipeline": pipeline.as_dict(),
                "catalogs": [one.as_dict() for one in catalogs],
            }
        )
    _end(every, as_json=as_json)


def _end(every: list[Diagnosis], *, as_json: bool) -> None:
    """Say what was found, if nobody has, and the exit code."""
    for number, one in enumerate([] if as_json else every):
        if number:
            show("")
        _show(one)
    if not all(one.ok for one in every):
        raise typer.Exit(FAILED)


def _catalog(target: str | None, told: dict[str, str]) -> CatalogConfig:
    from calve.config.catalog import CatalogConfig
    from calve.runtime.spark.lakes import find_lake

    return CatalogConfig(**told) if target is None else find_lake(target, told, {}).catalog


def _show(diagnosis: Diagnosis) -> None:
    """On a terminal words are wrapped below one another; elsewhere a line is a line."""
    show(diagnosis.verdict, style="bold")
    names = max(_NAME_COLUMNS, *(len(check.name) for check in diagnosis.checks))
    for check in diagnosis.checks:
        for line in _lines(check, names):
            show(line)


def _lines(check: Check, names: int) -> Iterator[Text]:
    width = columns()
    outcome = (f"{check.outcome:<8}", _STYLES[check.outcome])
    head = Text.assemble("  ", outcome, f" {check.name:<{names}} ")
    words, *_ = check.words.splitlines() or [""]  # what follows shows a place, for who edits the file
    yield from layout.hanging(head, words, width)
    if check.hint:
        arrow = Text(" " * len(head.plain) + "→ ")
        yield from layout.hanging(arrow, " ".join(check.hint.split()), width)
