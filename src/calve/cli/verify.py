"""`calve verify`: does the table equal its source, or another snapshot? It changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from calve.cli.arguments import Kind, Sink, Target, Uri, Warehouse, catalog_said, targets
from calve.cli.console import AsJson, show, show_json, show_named, working
from calve.cli.ground import FAILED
from calve.cli.pipeline import (
    FILE,
    Conf,
    Jars,
    Master,
    Packages,
    job,
    read_file,
    settings_of,
    sinks_of,
    spark_session,
)
from calve.model.errors import ConfigError

if TYPE_CHECKING:
    from calve.runtime.addresses import Address
    from calve.runtime.spark.verify.compare import Difference
    from calve.runtime.spark.verify.door import Verified

At = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="As of a time of the source; of a table also a snapshot's id, a tag."),
]
Against = Annotated[
    str | None,
    typer.Option(metavar="TABLE", help="The table to compare with; the same one, if not said."),
]
AgainstAt = Annotated[
    str | None, typer.Option(metavar="TIME", help="… as of a time, a snapshot's id or a tag.")
]


def verify(
    target: Target = FILE,
    as_json: AsJson = False,
    at: At = None,
    against: Against = None,
    against_at: AgainstAt = None,
    key: Annotated[
        str | None, typer.Option(help="Of two tables: the columns that identify a row, with commas between.")
    ] = None,
    postgres: Annotated[
        str | None,
        typer.Option(metavar="CONNECTION", help="Of a pipeline: a live table behind this connection."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="… which is called so there: public.orders.")] = None,
    wait: Annotated[
        str, typer.Option(metavar="DURATION", help="… and let the sink catch up, as long as that: 60s, 5m.")
    ] = "0s",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many differences are shown.")] = 10,
    sink: Sink = None,
    catalog_uri: Uri = None,
    warehouse: Warehouse = None,
    catalog_type: Kind = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    jars: Jars = None,
) -> None:
    """Compare tables with their sources, row by row, as of a frontier; or two snapshots. Changes nothing.

    Exit code: 0 they are equal, 1 they differ.
    """
    settings = settings_of(master, conf, packages, jars)
    if target.endswith(".sql"):
        if against is not None or against_at is not None or key is not None:
            raise ConfigError(
                "a pipeline is compared with its sources", hint="Leave --against, --against-at and --key out."
            )
        if (postgres is None) != (table is None):
            raise ConfigError("--postgres and --table belong together", hint="Give both, or neither.")
        if postgres is not None and table is not None:
            found = [_live(Path(target), sink, (postgres, table, wait), limit, settings)]
        else:
            found = _sinks(Path(target), sink, at, limit, settings)
    else:
        said = catalog_said(catalog_uri, warehouse, catalog_type)
        (left,) = targets(target, sink, said)
        right = left if against is None else targets(against, sink, said)[0]
        found = [_tables((left, at), (right, against_at), key, limit, settings)]
    if as_json:
        show_json({"equal": all(one.equal for one in found), "tables": [one.to_json() for one in found]})
    else:
        for one in found:
            show_verified(one)
    if not all(one.equal for one in found):
        raise typer.Exit(FAILED)


def _sinks(
    file: Path, sink: str | None, at: str | None, limit: int, settings: dict[str, str]
) -> list[Verified]:
    definitions = read_file(file)
    names = sinks_of(definitions, None if sink is None else [sink], file)
    with job(definitions, settings) as ready:
        from calve.runtime.spark.verify.door import verify_sink

        found: list[Verified] = []
        with working() as say:
            for name in names:
                say(f"comparing {name} with its source …")
                found += verify_sink(ready.prepare(name), at, limit)
        return found


def _live(
    file: Path, sink: str | None, live: tuple[str, str, str], limit: int, settings: dict[str, str]
) -> Verified:
    from calve.config.units import parse_duration
    from calve.sql.connect import postgres_uri
    from calve.sql.tree import Target as Kinds

    name, table, wait = live
    definitions = read_file(file)
    names = sinks_of(definitions, None if sink is None else [sink], file)
    if len(names) != 1:
        raise ConfigError("one sink is compared with a live table", hint="Say which: --sink.")
    known = {name: one for name, one in definitions.connections.items() if one.target is Kinds.POSTGRES}
    one = definitions.known("connection TO POSTGRES", name, known)
    uri, wait_ms = postgres_uri(one, definitions), parse_duration(wait, "--wait")
    with job(definitions, settings) as ready, working(f"comparing with {table} …"):
        from calve.runtime.spark.verify.door import verify_live

        return verify_live(ready.prepare(names[0]), uri, table, wait_ms=wait_ms, limit=limit)


def _tables(
    left: tuple[Address, str | None],
    right: tuple[Address, str | None],
    key: str | None,
    limit: int,
    settings: dict[str, str],
) -> Verified:
    if left == right:
        raise ConfigError(
            "the same snapshot would be compared with itself",
            hint="Name another by --against TABLE or --against-at ID. Or a pipeline, with its source: "
            "calve verify pipeline.sql.",
        )
    from calve.runtime.machine import check_spark

    check_spark()
    with spark_session(settings) as spark, working("comparing …"):
        from calve.runtime.spark.verify.door import verify_snapshots

        named = tuple(one.strip() for one in (key or "").split(",") if one.strip())
        return verify_snapshots(spark, right, left, named, limit)


def show_verified(one: Verified) -> None:
    """What came of it, for a terminal."""
    done = one.compared
    if one.equal:
        as_of = f" as of {one.frontier}" if one.frontier else ""
        words = f"  {one.table} and {one.source}{as_of}: {_rows(done.rows_right)}"
        show(Text.assemble(("equal", "bold green"), words))
    else:
        _show_unequal(one)
    if one.note:
        show(f"  {one.note}")


def _show_unequal(one: Verified) -> None:
    done = one.compared
    show(Text.assemble(("different", "bold red"), f"  {one.table} and {one.source}"))
    counts = (
        (done.missing, "missing"),
        (done.extra, "too many"),
        (done.different, "with other values"),
        (done.doubled, "more than once"),
    )
    at = "" if one.snapshot_id is None else f", snapshot {one.snapshot_id}"
    lines = [
        ("as of", one.frontier),
        ("source", _rows(done.rows_left)),
        ("table", f"{_rows(done.rows_right)}{at}"),
        ("found", ", ".join(f"{count:,} {words}" for count, words in counts if count)),
    ]
    show_named(lines, 2, len("source"))
    for difference in done.differences:
        _show_difference(difference)
    if (left := sum(count for count, _ in counts) - len(done.differences)) > 0:
        show(f"  … and {left:,} more; --limit shows more.")


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _show_difference(one: Difference) -> None:
    key = ", ".join(f"{name} = {_value(value)}" for name, value in one.key.items())
    if one.right is None:
        show(Text.assemble("  ", ("- missing  ", "red"), f"{key}: {_row(one.left, one.key)}"))
    elif one.times > 1:
        times = f"× {one.times:,} times"
        show(Text.assemble("  ", (f"{times:<11}", "yellow"), f"{key}: {_row(one.right, one.key)}"))
    elif one.left is None:
        show(Text.assemble("  ", ("+ too many ", "yellow"), f"{key}: {_row(one.right, one.key)}"))
    else:
        show(Text.assemble("  ", ("~ differs  ", "magenta"), key))
        for name in one.columns:
            source, table = _value(one.left[name]), _value(one.right[name])
            show(f"      {name}: {source} in the source, {table} in the table")


def _row(row: dict[str, Any] | None, key: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in (row or {}).items() if name not in key)


def _value(value: Any) -> str:
    text = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
