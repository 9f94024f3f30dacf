"""`calve status`, `calve history` and `calve drop`: what a person types, and what is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from calve.cli.app import app
from calve.cli.status import _sink_lines, _words
from calve.cli.terms import duration, size
from calve.runtime.inspect.result import SinkCondition, SinkStatus
from calve.table.sinks import sink_ids
from tests.support.sinks import Warehouse
from tests.support.timed import Timed, insert, rewrite

HLC = 1_698_775_840_453_391_000
Calve = Callable[..., Result]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


@pytest.fixture
def calve(warehouse: Warehouse) -> Calve:
    def run(command: str, *words: str, typed: str | None = None) -> Result:
        catalog = ("--catalog-uri", warehouse.uri, "--warehouse", str(warehouse.folder))
        call = [command, "calve.ns.t", *words, *catalog]
        return CliRunner().invoke(app, call, input=typed, env={"COLUMNS": "80", "NO_COLOR": "1"})

    return run


@pytest.fixture
def feed(warehouse: Warehouse) -> Timed:
    """A feed of CockroachDB with all that can be said of a sink."""
    positions = {"checkpoint": "6a0b1f3e-0000-4000-8000-000000000001", "micro_batch": 7, "delivered": {}}
    sink = Timed(warehouse, "hlc", positions=positions)
    for seconds in (0, 60):
        sink.put((HLC + seconds * 10**9) * 10**10 + 1, ids=(1, 2))
    insert(warehouse, 7)
    rewrite(warehouse, removed_equality_deletes=1)
    return sink


def plain(text: str) -> str:
    """Without the padding of columns."""
    return re.sub(r" +", " ", text.replace("\n", " "))


def test_the_next_step_can_be_typed_as_it_stands() -> None:
    waits = SinkStatus("s", SinkCondition.WELL, quarantined=2)
    lines = dict(_sink_lines(waits, _words("p x.sql", "raw", {"warehouse": None})))
    assert lines["quarantine"] == "2 rows wait; see: calve quarantine list 'p x.sql' --sink raw"


@pytest.mark.parametrize("command", [("status",), ("history",), ("drop", "--yes")], ids=" ".join)
def test_all_that_is_printed_fits_80_columns_and_has_no_colour(
    calve: Calve, feed: Timed, command: tuple[str, ...]
) -> None:
    done = calve(*command)
    assert done.exit_code == 0, done.output
    assert max(len(line.rstrip()) for line in done.stdout.splitlines()) <= 80
    assert "\x1b" not in done.stdout


def test_status_says_how_far_the_sink_is_and_what_to_look_at(calve: Calve, feed: Timed) -> None:
    said = plain(calve("status").stdout)
    assert "calve.ns.t main snapshot" in said
    assert "rows 5 in data files; what deletes take is not subtracted" in said
    assert "files 3 data; deletes: 1 by key, which wait for conversion, 0 by place" in said
    assert "sink ns.t: well makes upsert (id), fence: tag" in said
    frontier = f"{HLC + 60 * 10**9}.0000000001"
    assert f"frontier {frontier} (2023-10-31 18:11:40.453 UTC) lag" in said
    assert f"last batch from {HLC}.0000000001 to {frontier}" in said
    assert re.search(r"lag \d+ d \d+ h ", said)
    assert f"run generation 1, writer {feed.run.writer}" in said
    assert "times hlc positions checkpoint 6a0b1f3e-0000-4000-8000-000000000001, delivered {}" in said
    assert "others 2 snapshots since, with 1 rows" in said
    assert "look at another engine rewrote files and removed equality deletes (snapshot" in said
    assert "hint: A partial rewrite can bring deleted rows back: verify" in said


def test_status_is_one_json_object_of_tables(calve: Calve, feed: Timed) -> None:
    (table,) = json.loads(calve("status", "--json").stdout)["tables"]
    (sink,) = table["sinks"]
    assert (table["table"], sink["frontier"]) == ("calve.ns.t", str((HLC + 60 * 10**9) * 10**10 + 1))


def test_status_of_a_table_without_sinks_says_so(calve: Calve, warehouse: Warehouse) -> None:
    Timed(warehouse)
    assert "sink ns.t: new" in calve("status").stdout
    assert "nothing is committed yet" in calve("status").stdout
    calve("drop", "--yes", "--forget")
    assert "No sink of calve has written to this table." in calve("status").stdout


def test_status_with_a_checkpoint_says_what_waits(calve: Calve, feed: Timed, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id": "another"}')
    said = plain(calve("status", "--checkpoint", str(tmp_path)).stdout)
    assert "stash nothing is kept beside the checkpoint" in said
    assert "is the checkpoint of query another, and the sink was last written from 6a0b1f3e" in said
    wrong = calve("status", "--checkpoint", str(tmp_path / "nowhere"))
    assert wrong.exit_code == 1
    assert "holds no checkpoint of a query\nhint: " in wrong.stderr


def test_history_lists_snapshots_newest_first_and_says_what_each_is(calve: Calve, feed: Timed) -> None:
    lines = calve("history").stdout.splitlines()
    assert lines[0] == "calve.ns.t"
    assert lines[1].split() == ["snapshot", "committed", "(UTC)", "what", "frontier", "rows"]
    kinds = [re.split(r"\s+", line)[3] for line in lines[2:] if line[:1].isdigit()]
    assert kinds == ["rewrite", "foreign", "commit", "commit", "claim"]
    assert "2023-10-31" in "\n".join(lines)
    said = calve("history", "--limit", "2").stdout
    assert "… and 3 older ones; --limit shows more." in said


def test_history_is_one_json_object(calve: Calve, feed: Timed) -> None:
    (table,) = json.loads(calve("history", "--json", "--limit", "3").stdout)["tables"]
    assert [one["kind"] for one in table["snapshots"]] == ["rewrite", "foreign", "commit"]
    assert table["more"] == 2


def test_history_at_a_time_prints_the_snapshot_and_queries_in_one_line_each(
    calve: Calve, feed: Timed, warehouse: Warehouse
) -> None:
    at = f"{HLC}.0000000000"
    said = calve("history", "--at", at).stdout
    (table,) = json.loads(calve("history", "--at", at, "--json").stdout)["tables"]
    assert (table["frontier_text"], table["reached"]) == (f"{HLC}.0000000001", True)
    for query in table["queries"].values():
        assert f"  {query}\n" in said
    assert f"as of {at} (2023-10-31 18:10:40.453 UTC)" in plain(said)
    assert f"shows all before {HLC}.0000000001 (2023" in plain(said)
    later = datetime.now(UTC).isoformat()
    assert "has not come to this time yet" in plain(calve("history", "--at", later).stdout)


def test_a_time_that_is_not_there_is_two_lines_and_a_code(calve: Calve, feed: Timed) -> None:
    done = calve("history", "--at", "2001-01-01")
    assert done.exit_code == 1
    assert done.stderr.startswith("error CALVE-320 (BadTime): 978307200000000000.0000000000 (2001-01-01")
    assert "hint: Times from" in done.stderr
    assert calve("history", "--at", "soon").exit_code == 1


def test_drop_asks_and_does_nothing_unless_it_is_told_yes(
    calve: Calve, feed: Timed, warehouse: Warehouse
) -> None:
    before = warehouse.load().metadata_location
    for typed in ("n\n", "", "\n"):
        done = calve("drop", typed=typed)
        assert done.exit_code == 1
        assert "will be forgotten. This removes:\n  tag calve-ns.t\n" in done.stdout
    assert warehouse.load().metadata_location == before
    assert calve("drop", typed="y\n").exit_code == 0
    assert sink_ids(warehouse.load().metadata) == ()


def test_drop_says_what_is_gone_and_what_stays(calve: Calve, feed: Timed) -> None:
    kept = calve("drop", "--keep-progress").stdout
    assert kept.startswith("Nothing was changed: calve.ns.t still knows how far sink ns.t is.")
    assert calve("drop", "--yes").stdout == (
        "Sink ns.t of calve.ns.t is forgotten. Removed:\n"
        "  tag calve-ns.t\n"
        "  property calve.sink.ns.t\n"
        "What stays:\n"
        "  the table ns.t with its rows and snapshots\n"
        "  the checkpoint of query 6a0b1f3e-0000-4000-8000-000000000001\n"
        "A run under this id is refused from now on; --forget lets it begin from zero.\n"
    )
    assert "sink ns.t: dropped (upsert (id), " in calve("status").stdout
    assert "begins from zero" in calve("drop", "--yes", "--forget").stdout


def test_drop_for_programs_does_not_ask_and_needs_to_be_told_yes(calve: Calve, feed: Timed) -> None:
    refused = calve("drop", "--json", typed="y\n")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["error"]["hint"] == "Say --yes."
    (done,) = json.loads(calve("drop", "--json", "--yes").stdout)["sinks"]
    assert done["removed"] == ["tag calve-ns.t", "property calve.sink.ns.t"]


@pytest.mark.parametrize(
    "milliseconds, text",
    [
        (0, "0.0 s"),
        (1_250, "1.2 s"),
        (65_000, "1 min 5 s"),
        (3_600_000, "1 h 0 min"),
        (90_061_000, "1 d 1 h"),
        (-65_000, "-1 min 5 s"),
    ],
)
def test_a_duration_has_its_two_greatest_units(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize("count, text", [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KB")])
def test_a_size_is_in_the_unit_that_suits_it(count: int, text: str) -> None:
    assert size(count) == text
