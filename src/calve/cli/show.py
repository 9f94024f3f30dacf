"""What the demo found, for a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from calve.cli.demo import CATALOG, Compared, Outcome
from calve.cli.runs import NAMESPACE, TABLE
from calve.config.catalog import EMBEDDED_FILE


def show_demo(outcome: Outcome, console: Console) -> None:
    """Print the kills, the snapshots, the verdict, and how to read the table."""
    console.print(
        f"A ledger of {outcome.demo.accounts:,} accounts was streamed in {outcome.demo.epochs} epochs: "
        "transfers, new accounts, closed ones.\n",
        soft_wrap=True,
    )
    for kill in outcome.kills:
        console.print(
            f"  run {kill.run} got SIGKILL in epoch {kill.epoch}, while {kill.moment}; "
            f"run {kill.run + 1} went on with epoch {kill.resumed_at}",
            soft_wrap=True,
        )
    console.print()
    console.print(_snapshots(outcome.snapshots))
    count = len(outcome.snapshots)
    if outcome.matches:
        verdict = (
            f"[green]All {count} snapshots equal the ledger[/green], row by row; "
            f"the balances sum to {outcome.total:,} in each."
        )
    else:
        verdict = (
            f"[red]The table is wrong[/red]: {count} snapshots for {outcome.demo.epochs} epochs, as shown."
        )
    console.print(f"{verdict} ({outcome.seconds:.1f} s)", soft_wrap=True)
    more = how_to_read(outcome) if outcome.demo.keep else "\n`calve demo --keep` leaves the table to look at."
    console.print(more, soft_wrap=True, highlight=False)


def how_to_read(outcome: Outcome) -> str:
    """Lines that read the table that was kept."""
    folder = Path(outcome.folder)
    return escape(
        f"""
The table is in {folder}. To read it:

  DuckDB      INSTALL iceberg; LOAD iceberg;
              {duckdb_query(outcome)}
  PyIceberg   {pyiceberg_line(outcome)}
              (it shows the metadata; rows under equality deletes it refuses to read)"""
    )


def duckdb_query(outcome: Outcome) -> str:
    return f"SELECT count(*), sum(balance) FROM iceberg_scan('{outcome.metadata}');"


def pyiceberg_line(outcome: Outcome) -> str:
    uri = f"sqlite:///{Path(outcome.folder) / EMBEDDED_FILE}"
    opened = f"SqlCatalog('{CATALOG}', uri='{uri}').load_table('{NAMESPACE}.{TABLE}')"
    return f"from pyiceberg.catalog.sql import SqlCatalog; print({opened}.inspect.snapshots())"


def _snapshots(snapshots: list[Compared]) -> Table:
    table = Table()
    for heading in ("epoch", "frontier", "run", "rows", "files", "ms", "sum"):
        table.add_column(heading, justify="right")
    table.add_column("equals the ledger")
    for one in snapshots:
        took = "–" if one.milliseconds is None else f"{one.milliseconds:.0f}"
        figures = (one.epoch, one.frontier, one.run, f"{one.rows:,}", one.files, took, f"{one.total:,}")
        table.add_row(*map(str, figures), "[green]yes[/green]" if one.matches else "[red]NO[/red]")
    return table
