"""What the demo found, for a terminal."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from shlex import quote as quote_any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from calve.cli.demo import Compared, Kill, Outcome
from calve.cli.driver import WAREHOUSE
from calve.cli.feed import DELAY

_EXTENSIONS = ("avro", "iceberg")
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


def show_demo(outcome: Outcome, console: Console) -> None:
    """Print the feed, the kills, the snapshots, the verdict, and how to read the table."""
    _say(console, _feed(outcome))
    console.print()
    for kill in outcome.kills:
        for line in _kill(kill):
            _say(console, line, indent=2)
    console.print()
    console.print(_snapshots(outcome.snapshots))
    _say(console, _verdict(outcome))
    more = how_to_read(outcome) if outcome.demo.keep else "\n`calve demo --keep` leaves the table to look at."
    console.print(more, soft_wrap=True, highlight=False)


def _say(console: Console, text: str, indent: int = 0) -> None:
    """A sentence: on a terminal its lines end between words, elsewhere it is one line."""
    if console.is_terminal:
        console.print(Padding.indent(Text.from_markup(text), indent))
    else:
        console.print(" " * indent + text, soft_wrap=True, highlight=False)


def _feed(outcome: Outcome) -> str:
    feed = outcome.feed
    return (
        f"A ledger of {outcome.demo.accounts:,} accounts, {outcome.demo.minutes} minutes long: "
        f"{feed.changes:,} changes came in {feed.files} micro-batches, {feed.late:,} of them late by up to "
        f"{DELAY // 1_000_000} s, {feed.twice:,} twice."
    )


def _kill(kill: Kill) -> tuple[str, str]:
    if kill.landed and kill.sent_again:
        then = "got it again, found it in the table, and did not commit it again"
    elif kill.landed:
        then = "went on with the next one: the commit was done, and Spark knew"
    elif kill.files_reused:
        then = "committed the files that were there, once"
    else:
        then = "wrote it again, and committed it once"
    return (
        f"run {kill.run} got SIGKILL in micro-batch {kill.micro_batch}, while {kill.moment};",
        f"run {kill.run + 1} {then}",
    )


def _verdict(outcome: Outcome) -> str:
    count = len(outcome.snapshots)
    if outcome.matches:
        verdict = (
            f"[green]All {count} snapshots equal the ledger as of their frontier[/green], row by row; the "
            f"balances sum to {outcome.total:,} in each. The last {outcome.waiting:,} changes still wait for "
            "theirs."
        )
    else:
        verdict = f"[red]The table is wrong[/red]: {count} snapshots, as shown."
    return f"{verdict} ({outcome.seconds:.1f} s)"


def how_to_read(outcome: Outcome) -> str:
    """Lines that read the table that was kept."""
    return escape(
        f"""
The table is in {Path(outcome.folder) / WAREHOUSE}. To read it with DuckDB:

  {duckdb_command(outcome)}"""
    )


def duckdb_query(outcome: Outcome) -> str:
    return f"SELECT count(*), sum(balance) FROM iceberg_scan('{outcome.metadata}')"


def duckdb_command(outcome: Outcome) -> str:
    """A command line: with the DuckDB of this Python where it has one with its extensions, else with the
    program, which fetches them."""
    if not all(find_spec(f"duckdb_extension_{name}") for name in _EXTENSIONS) or not find_spec("duckdb"):
        return f"duckdb -c {quote(f'INSTALL iceberg; LOAD iceberg; {duckdb_query(outcome)};')}"
    loads = "".join(f"LOAD '{_extension(name)}'; " for name in _EXTENSIONS)
    code = f"import duckdb; print(duckdb.sql('''{loads}{duckdb_query(outcome)}'''))"
    return f"{quote_any(sys.executable)} -c {quote(code)}"


def _extension(name: str) -> Path:
    found = (Path(str(files(f"duckdb_extension_{name}"))) / "extensions").glob(f"*/{name}.duckdb_extension")
    return next(found)


def quote(text: str) -> str:
    """For a shell, and for eyes: SQL is full of single quotes."""
    return quote_any(text) if any(mark in text for mark in '"$`\\!') else f'"{text}"'


def _snapshots(snapshots: list[Compared]) -> Table:
    table = Table()
    for heading in ("frontier (UTC)", "run", "rows", "files", "ms", "sum"):
        table.add_column(heading, justify="right")
    table.add_column("equals the ledger")
    for one in snapshots:
        at = _1970 + timedelta(microseconds=one.frontier)
        took = "–" if one.milliseconds is None else f"{one.milliseconds:.0f}"
        figures = (f"{at:%H:%M:%S}", one.run, f"{one.rows:,}", one.files, took, f"{one.total:,}")
        table.add_row(*map(str, figures), "[green]yes[/green]" if one.matches else "[red]NO[/red]")
    return table
