"""Plans and runs, as a person sees them: exact pages, at 80 columns."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace

import pyte
import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from calve.cli.ground import CHANGES, FAILED, OK, Ground
from calve.cli.planned import SinkPlan, show_plan, show_summary, worst
from calve.cli.watching import NOTE_SECONDS, Lines, Notes, show_ran, so_far
from calve.runtime.previewed import Action, ColumnPreview, Preview, Refusal
from calve.runtime.spark.job.run import Ran
from calve.runtime.spark.progress import SinkProgress
from calve.table.readers import answers, features

HLC = 1_698_775_840_453_391_000 * 10**10 + 1


def readers(**held: bool) -> tuple[tuple[str, str, str], ...]:
    return tuple((str(reader), one.reads.value, one.note) for reader, one in answers(features(**held)))


NEW = Preview(
    "shop.paid_orders",
    "sql sqlite:////data/lake/catalog.db",
    "shop.paid_orders",
    "upsert",
    Action.CREATE,
    (
        ColumnPreview("id", "long", True, True, "new"),
        ColumnPreview(
            "address", "struct<street: string, city: string, zip: string, country: string>", change="new"
        ),
        ColumnPreview("at", "timestamptz", change="new"),
    ),
    ("id",),
    "by (id), in the whole table: where an older row lies does not follow from the key",
    "day(at)",
    "none",
    "",
    {"write.metadata.previous-versions-max": "20"},
    source="hlc",
    readers=readers(upsert=True, global_deletes=True),
)
CHANGED = Preview(
    "shop.other",
    "rest https://catalog.example/api",
    "shop.other",
    "upsert",
    Action.CHANGE,
    (
        ColumnPreview("id", "long", True, True),
        ColumnPreview("total", "long", change="was int"),
        ColumnPreview("note", "string", change="new"),
    ),
    ("id",),
    "by (id), inside the partition of a row: it follows from the key",
    "bucket(4, id)",
    "id asc nulls first",
    "s3://bucket/shop/other",
    resumes=HLC,
    generation=3,
    source="hlc",
    readers=readers(upsert=True),
)
REFUSED = Preview(
    "shop.other",
    "rest https://catalog.example/api",
    mode="upsert",
    action=Action.REFUSE,
    key=("id",),
    refused=(
        Refusal("CALVE-403", "partition: found bucket(4, id), wanted id", "Name the layout of the table."),
    ),
)
PLANS = [
    SinkPlan("paid", "orders", (NEW,)),
    SinkPlan(
        "c",
        "orders",
        (CHANGED,),
        notes=("a stream is written exactly once, which is more than was asked for.",),
    ),
    SinkPlan("d", "orders", (REFUSED,)),
    SinkPlan(
        "bad",
        "v",
        refused=Refusal(
            "CALVE-200",
            "there is no source 'odrers' (line 3, column 20)\n"
            "    CREATE SINK s FROM odrers\n"
            "                       ^",
            "Did you mean orders? There is: orders.",
        ),
    ),
]
PAGE = """\
sink paid, from orders

  + shop.paid_orders is created
    in         sql sqlite:////data/lake/catalog.db
    mode       upsert, key (id)
    columns    id       long                                     required, key
               address  struct<street: string, city: string,
                        zip: string, country: string>
               at       timestamptz
    partition  day(at)
    sets       write.metadata.previous-versions-max = 20
    begins     with all that its source has; times are hybrid logical clocks
               such as 1698775840453391000.0000000001, or wall times
    deletes    by (id), in the whole table: where an older row lies does not
               follow from the key
    readers    right    Spark 4.1, Sail 0.7, DuckDB 1.5, DataFusion 54,
                        Trino 476
               setting  Flink 2.1 (only with
                        `table.exec.iceberg.use-flip27-source=false`)
               refuse   PyIceberg 0.12, Polars, Daft
               wrong    chDB 26.9 (ignores them, and says nothing)

sink c, from orders
    note       a stream is written exactly once, which is more than was asked
               for.

  ~ shop.other changes
    in         rest https://catalog.example/api
    place      s3://bucket/shop/other
    mode       upsert, key (id)
    columns    id     long    required, key
               total  long                   was int
               note   string                 new
    partition  bucket(4, id)
    sort       id asc nulls first
    goes on    at 1698775840453391000.0000000001 (2023-10-31 18:10:40.453 UTC),
               as run 4
    deletes    by (id), inside the partition of a row: it follows from the key
    readers    right   Spark 4.1, Sail 0.7, DuckDB 1.5, DataFusion 54,
                       Trino 476, Flink 2.1, chDB 26.9
               refuse  PyIceberg 0.12, Polars, Daft

sink d, from orders

  ! shop.other is refused
    refused    CALVE-403: partition: found bucket(4, id), wanted id
    hint       Name the layout of the table.
    in         rest https://catalog.example/api
    mode       upsert, key (id)

sink bad, from v

  ! is refused
    refused    CALVE-200: there is no source 'odrers' (line 3, column 20)
                   CREATE SINK s FROM odrers
                                      ^
    hint       Did you mean orders? There is: orders.

Plan: 1 to create, 1 to change, 2 sinks are refused. Nothing was changed.
"""


def shown(act: object) -> str:
    """What a terminal of 80 columns shows."""
    plain = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": "1"}
    name = getattr(act, "__name__", "").replace("_", "-")
    done = CliRunner().invoke(_app(act), [name], env=plain)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_plan_is_a_page_of_80_columns_that_cuts_no_word() -> None:
    def plan() -> None:
        for one in PLANS:
            show_plan(one)
        show_summary(PLANS)

    assert shown(plan) == PAGE
    assert max(map(len, PAGE.splitlines())) <= 80


def test_colour_is_beside_the_text_and_not_in_place_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)

    def plan() -> None:
        show_plan(PLANS[0])

    coloured = (
        CliRunner()
        .invoke(
            _app(plan),
            ["plan"],
            env={"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": None},
        )
        .stdout
    )
    assert "\x1b[1;32m" in coloured  # what is created is green
    assert Text.from_ansi(coloured).plain.strip() == PAGE.partition("\nsink c")[0].strip()


def _app(act: object) -> typer.Typer:
    app = typer.Typer(cls=Ground, pretty_exceptions_enable=False)
    app.command()(act)  # type: ignore[type-var]
    app.callback()(lambda: None)
    return app


def test_without_a_terminal_lines_are_whole() -> None:
    def plan() -> None:
        show_plan(PLANS[0])

    whole = CliRunner().invoke(_app(plan), ["plan"]).stdout
    assert (
        "    deletes    by (id), in the whole table: where an older row lies does not follow from the key\n"
        in whole
    )
    assert "right    Spark 4.1, Sail 0.7, DuckDB 1.5, DataFusion 54, Trino 476\n" in whole


@pytest.mark.parametrize(
    "plans, code, summary",
    [
        (PLANS, FAILED, "1 to create, 1 to change, 2 sinks are refused"),
        (PLANS[:2], CHANGES, "1 to create, 1 to change"),
        ([SinkPlan("a", "b", (replace(NEW, action=Action.LEARN),))], CHANGES, "1 to create"),
        ([SinkPlan("a", "b", (replace(NEW, action=Action.NOTHING),))], OK, "1 as it should be"),
    ],
)
def test_the_worst_of_all_sinks_is_the_exit_code(plans: list[SinkPlan], code: int, summary: str) -> None:
    assert worst(plans) == code

    def plan() -> None:
        show_summary(plans)

    assert shown(plan) == f"Plan: {summary}. Nothing was changed.\n"


def test_a_plan_in_json_is_complete() -> None:
    body = json.loads(json.dumps(PLANS[1].to_json()))
    (table,) = body["tables"]
    assert set(table) == {
        *("table", "catalog", "sink_id", "mode", "action", "columns", "key", "deletes", "partition", "sort"),
        *("location", "properties", "resumes", "generation", "source", "readers", "changes", "refused"),
    }
    assert table["columns"][1] == {
        "name": "total",
        "type": "long",
        "required": False,
        "key": False,
        "change": "was int",
    }
    assert table["resumes"] == str(HLC)
    assert table["readers"][0] == {"reader": "Spark 4.1 with Iceberg 1.11", "reads": "right", "note": ""}
    assert PLANS[3].to_json()["refused"]["code"] == "CALVE-200"
    assert PLANS[2].to_json()["tables"][0]["refused"][0] == {
        "code": "CALVE-403",
        "reason": "partition: found bucket(4, id), wanted id",
        "hint": "Name the layout of the table.",
    }


# ---------------------------------------------------------------- runs


def progress(table: str, micro_batch: int = 0, **more: object) -> SinkProgress:
    counts = {"rows": 1234, "batches_committed": 2, "frontier": HLC, "source": "hlc", "lag_ms": 1500}
    return SinkProgress(table, table, micro_batch=micro_batch, **{**counts, **more})  # type: ignore[arg-type]


def ran(sink: str, *heard: SinkProgress) -> Ran:
    made = Ran(sink)
    for one in heard:
        made.heard(one)
    return made


def test_what_a_run_did_is_a_table_that_fits() -> None:
    both = ran(
        "feed", progress("shop.orders"), progress("shop.customers", rows=1), progress("shop.orders", 1)
    )
    assert (both.rows, both.snapshots, both.micro_batches) == (2469, 6, 2)
    bad = ran("bad", progress("shop.bad", rows_quarantined=7, frontier=None))

    def page() -> None:
        show_ran([both, bad, ran("idle")])

    assert shown(page) == (
        "sink  table            rows  snapshots  quarantined  frontier\n"
        "feed  shop.orders     2,468          4            0  2023-10-31 18:10:40.453\n"
        "feed  shop.customers      1          2            0  2023-10-31 18:10:40.453\n"
        "bad   shop.bad        1,234          2            7\n"
        "Nothing was written for idle.\n"
    )


def test_a_sink_at_work_is_a_line() -> None:
    assert so_far(ran("s", progress("t", rows_stashed=3, held_by="orders/1"))) == (
        "1,234 rows · 2 snapshots · frontier 2023-10-31 18:10:40.453 · 1.5 s behind · held by orders/1 · "
        "3 wait"
    )
    assert so_far(ran("s")) == "0 rows · 0 snapshots"


def test_lines_of_a_log_come_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    notes = Notes(lambda: now[0])
    for seconds in (0.0, 1.0, NOTE_SECONDS - 0.1, NOTE_SECONDS, 2 * NOTE_SECONDS):
        now[0] = seconds
        notes.say("a", f"at {seconds}")
    notes.say("b", "another")
    assert capsys.readouterr().err == "a: at 0.0\na: at 10.0\na: at 20.0\nb: another\n"


def test_lines_of_a_terminal_are_written_over_and_gone_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = pyte.Screen(40, 6)
    stream = pyte.Stream(screen)
    out = io.StringIO()
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((40, 6)))
    monkeypatch.setattr(out, "fileno", lambda: 2, raising=False)
    lines = Lines(["paid", "log"], out)
    lines.draw()
    lines.say("log", "x" * 100)
    lines.say("paid", "1 row")
    stream.feed(out.getvalue())
    assert [line.rstrip() for line in screen.display[:3]] == ["paid  1 row", f"log   {'x' * 33}", ""]
    out.seek(0)
    out.truncate()
    lines.clear()
    stream.feed(out.getvalue())
    assert not any(line.strip() for line in screen.display)
