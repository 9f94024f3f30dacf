"""The tutorial and the guides can be followed by a newcomer, from the first block to the last, and show what
is printed; the reference of SQL shows statements that calve understands.

By day they are followed with the programs of this environment. At night they are followed in a fresh virtual
environment that the tutorial's own first block has made from a copy of the repository.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from calve.sql import options
from calve.sql.connect import aws_properties, catalog_options, kafka_options, postgres_uri
from calve.sql.defined import Definitions
from calve.sql.options import Known
from calve.sql.read import read
from calve.sql.sink import sink_of
from calve.sql.source import source_of
from calve.sql.tree import Create, Target
from tools.env import DEV_LOCK
from tools.newcomer import Failed, Newcomer
from tools.shown import is_shown
from tools.walk import NOT_RUN, PAGES, ROOT, Stumbled, blocks, check, follow, walk

pytestmark = pytest.mark.docs

COPIED = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "src")
PROGRAMS = Path(sys.executable).parent


@contextmanager
def home() -> Iterator[Path]:
    """An empty one, whose name is as long everywhere: what a terminal wraps depends on it."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="calve-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def newcomer() -> Iterator[Newcomer]:
    with home() as empty, Newcomer.at(empty, PROGRAMS) as someone:
        yield someone


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


# ---------------------------------------------------------------- the pages


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES)
def test_a_newcomer_can_follow_the_page_and_sees_what_it_shows(page, newcomer):
    walk(page, newcomer)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_the_page_is_run_or_read_by_somebody(page):
    """And is whole in its language: a mistake of the pen is found in a second."""
    check(page, text_of(page))


def test_there_is_a_tutorial_and_five_guides_and_each_has_something_to_run():
    assert len(PAGES) == 6
    for page in PAGES:
        run = [block for block in blocks(page, text_of(page)) if block.language in ("sh", "python")]
        assert len(run) >= 5, page
        assert len([block for block in blocks(page, text_of(page)) if block.is_expected]) >= 3, page


def constraints(file: Path) -> Path:
    """The releases of the lock, without their hashes, which pip would ask of the clone as well.

    So a release of somebody else's breaks no page overnight, and DuckDB's is the one that its extensions are
    made for.
    """
    pins = re.findall(r"^[\w.-]+==[^\\\n]+", DEV_LOCK.read_text("utf-8"), re.MULTILINE)
    file.write_text("\n".join(pins), "utf-8")
    return file


@pytest.fixture(scope="module")
def fresh() -> Iterator[Path]:
    """A virtual environment, as the tutorial makes it: in a clone of the repository, by its first block."""
    (install,) = (block for block in blocks("tutorial", text_of(PAGES[0])) if block.installs)
    with home() as empty:
        clone = empty / "calve"
        clone.mkdir()
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, clone / name)
        with Newcomer.at(empty, None, folder=clone) as someone:
            someone.seconds_max = 1800
            someone.environment["PIP_CONSTRAINT"] = str(constraints(empty / "constraints.txt"))
            someone.shell(install.text)
        yield clone / "venv" / "bin"


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", PAGES)
def test_a_newcomer_can_follow_the_page_in_a_fresh_environment(page, fresh):
    with home() as empty, Newcomer.at(empty, fresh) as someone:
        assert someone.shell("command -v calve").strip() == str(fresh / "calve")
        walk(page, someone)


# ---------------------------------------------------------------- the reference of SQL


@pytest.mark.parametrize("page, least", [("docs/sql.md", 12), ("docs/guides/sql.md", 4)])
def test_every_kind_of_statement_is_shown_and_understood(page, least, monkeypatch, tmp_path):
    for name in ("AWS_SECRET_ACCESS_KEY", "LAKE_LOGIN", "LAKE_PASSWORD", "MZ_PASSWORD", "S3_SECRET_KEY"):
        monkeypatch.setenv(name, "x")
    (tmp_path / "secret").write_text("x")
    shown = re.findall(r"^```sql\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    kinds = set()
    for text in shown:
        text = re.sub("/run/secrets/[a-z]+", str(tmp_path / "secret"), text)
        statements = read(text)
        kinds |= {type(statement).__name__ for statement in statements}
        if all(isinstance(statement, Create) for statement in statements):
            understood(Definitions.of_text(text, Path("/pipelines")))
    assert len(shown) >= least
    assert kinds == {kind.__name__ for kind in (*Create.__args__, *QUESTIONS)}


QUESTIONS = {
    type(one)
    for one in read(
        "SHOW SINKS; SHOW CREATE SINK s; SHOW CHANGEFEED 1; DESCRIBE s; EXPLAIN SINK s;DROP SINK s"
    )
}


def understood(found: Definitions) -> None:
    opened = {
        Target.ICEBERG: catalog_options,
        Target.AWS: aws_properties,
        Target.KAFKA: kafka_options,
        Target.POSTGRES: postgres_uri,
    }
    for connection in found.connections.values():
        opened[connection.target](connection, found)
    for source in found.sources.values():
        source_of(source, found)
    for sink in found.sinks.values():
        sink_of(sink, found)


def test_every_option_of_a_statement_is_in_the_reference():
    listed = [
        one for one in vars(options).values() if isinstance(one, tuple) and one and isinstance(one[0], Known)
    ]
    known = [option for listing in listed for option in listing]
    known += [one for one in vars(options).values() if isinstance(one, Known)]
    page = text_of("docs/sql.md")
    assert len(known) > 60
    assert [one.name for one in known if f"| `{one.name.upper()}` |" not in page] == []


# ---------------------------------------------------------------- how a page is followed

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "shown, printed",
    [
        ("rows  2\n", "rows       2"),
        ("snapshot 2101579112764113703, done", "snapshot 814371130160156631, done"),
        ("at 2026-01-01 10:00:00 UTC", "at 2026-11-17 11:59:58 UTC"),
        ("as of 2026-01-05 09:10", "as of 2026-01-05 09:10"),
        ("in …/catalog.db", "in /tmp/x/catalog.db"),
        ("first\n…\nlast", "first\nsecond\nthird\nlast"),
        ("first\n…\nlast", "first\nlast"),
        ("┌──┐", "┌──────┐"),
        ("lag  1 d 15 h", "lag  316 d 4 h"),
        ("writer 981ae69c-2afd-455d-9656-98e87cc7d8e0", "writer 24b7d453-5c50-454d-b1e8-7eb2c397f068"),
    ],
)
def test_what_differs_from_run_to_run_may_differ_from_the_page(shown, printed):
    assert is_shown(shown, printed, NOW)


@pytest.mark.parametrize(
    "shown, printed",
    [
        ("rows 2", "rows 3"),
        ("rows 2", "rows 2\nand more"),
        ("", "something"),
        ("as of 2026-01-05 09:10", "as of 2026-01-05 09:11"),
        ("1794819610000000000.0000000000", "1794819620000000000.0000000000"),
        ("snapshot 2101579112764113703", "snapshot none"),
        ("lag  1 d 15 h", "lag  15 s"),
        ("first\n…\nlast", "first\nsecond"),
        ("in …/catalog.db", "in /tmp\n/catalog.db"),
    ],
)
def test_what_must_not_differ_is_found(shown, printed):
    assert not is_shown(shown, printed, NOW)


def page_of(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


def fence(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


@pytest.mark.parametrize(
    "text, why",
    [
        (page_of(fence("text", "hello")), "no block before it prints"),
        (page_of(fence("sh", "true"), fence("text", ""), fence("text", "")), "no block before it prints"),
        (page_of(fence("console", "$ ls")), "nobody runs such a block"),
        (page_of(fence("", "ls")), "nobody runs such a block"),
        (page_of("Settings:", fence("yaml", "a: 1")), "nobody runs such a block"),
        (page_of(f"{NOT_RUN}.", fence("yaml", "a: [")), "it cannot be read"),
        (page_of(f"{NOT_RUN}.", fence("json", "{")), "it cannot be read"),
        (page_of(fence("sql", "CREATE SINC s")), "it cannot be read"),
        (page_of(fence("sql", "-- p.sql\nCREATE SINC s")), "it cannot be read"),
        (page_of(fence("sh", "if")), "bash cannot read it"),
        (page_of(fence("python", "# a.py\n1 +")), "Python cannot read it"),
    ],
)
def test_a_block_that_nobody_runs_or_reads_is_found_with_its_line(text, why):
    with pytest.raises(Stumbled, match=why) as found:
        check("page.md", text)
    assert re.match(r"page\.md:\d+: ", str(found.value))


def test_a_page_that_shows_something_else_than_is_printed_is_found(newcomer, tmp_path, monkeypatch):
    monkeypatch.setattr("tools.walk.ROOT", tmp_path)
    (tmp_path / "page.md").write_text(page_of(fence("sh", "echo 2 rows"), fence("text", "3 rows")), "utf-8")
    with pytest.raises(Stumbled, match=r"page\.md:5: something else was printed"):
        walk("page.md", newcomer)


def test_a_terminal_goes_on_where_it_was_and_has_80_columns(newcomer):
    newcomer.shell("mkdir -p ~/a\ncd ~/a\nexport WORD='two words'")
    newcomer.write("b.txt", "text\n")
    assert newcomer.shell('pwd; cat b.txt; echo "$WORD"') == f"{newcomer.home}/a\ntext\ntwo words\n"
    said = newcomer.shell("python -c 'import os; print(os.get_terminal_size().columns)'; echo aside >&2")
    assert said == "80\n"


def test_an_exit_code_must_be_the_one_that_the_page_says(newcomer):
    assert newcomer.shell("echo no >&2\nexit 2", 2) == "no\n"  # of what fails, the error is shown
    with pytest.raises(Failed, match="ended with exit code 2, not 0"):
        newcomer.shell("exit 2")
    for fails in ("false\necho not reached", "false | true"):
        with pytest.raises(Failed, match="ended with exit code 1, not 0"):
            newcomer.shell(fails)
    (block,) = blocks("p", fence("sh", "calve plan   # exit code 2: something to do"))
    assert block.exit_code == 2


def test_examples_in_python_remember_and_what_fails_is_told(newcomer):
    found = list(
        follow(
            "p",
            page_of(fence("python", "a = 1"), fence("python", "print(a + 1)"), fence("text", "2")),
            newcomer,
        )
    )
    assert [printed for _, printed in found] == ["2\n"]
    with pytest.raises(Stumbled, match="ZeroDivisionError"):
        list(follow("p", page_of(fence("python", "1 / 0")), newcomer))


def test_what_a_page_leaves_running_ends_with_the_walk():
    with home() as empty:
        with Newcomer.at(empty, PROGRAMS) as someone:
            left = os.pidfd_open(int(someone.shell("sleep 600 &\necho $!")))
            assert not ended(left, seconds_max=0)
        assert ended(left, seconds_max=10)
        os.close(left)


def ended(pidfd: int, seconds_max: float) -> bool:
    return bool(select.select([pidfd], [], [], seconds_max)[0])


def test_a_newcomer_has_nothing_of_this_machine_but_its_programs(newcomer, monkeypatch):
    assert newcomer.environment["HOME"] == str(newcomer.home)
    assert not {
        name for name in newcomer.environment if name.startswith(("AWS_", "PYICEBERG_", "SPARK_HOME", "XDG_"))
    }
