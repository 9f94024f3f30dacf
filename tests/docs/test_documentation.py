"""What the documentation shows is true: its examples run, its links lead somewhere, its tests exist.

Every ```python block of a page runs, in the order of the page, in one namespace. A page has a process and an
empty folder of its own; those with Spark share both, because a process holds one session, and a session takes
long to start. Of the other blocks, each line that calls `calve` is understood, and run as a process at night,
and each `make` target must exist. The tutorial and the guides are followed in another way: test_guides.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID

import pytest
from typer.testing import CliRunner

import calve.cli.app as app_module
import calve.cli.demo as demo_module
from calve.cli.runs import DemoFailed
from calve.model.progress import Progress
from calve.runtime import machine
from tests.docs import failures
from tools import pages, walk

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WALKED = [ROOT / page for page in walk.PAGES]
"""Pages that a newcomer follows from the first block to the last: test_guides.py."""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEST = re.compile(r"`((?:tests/)?[\w/]+\.py)::(\w+)`")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in BLOCK.findall(page.read_text("utf-8")) if language in languages]


def commands(pages: Sequence[Path] = PAGES) -> Iterator[str]:
    """Every line that calls calve, as it is shown, without its comment."""
    for page in pages:
        for block in () if page in WALKED else blocks(page, "", "sh", "console"):
            for line in block.splitlines():
                command = line.removeprefix("$ ").partition("#")[0].strip()
                if command.startswith("calve ") and "·" not in command:
                    yield command


def demos() -> list[str]:
    """Commands that bring all that they need."""
    return sorted({command for command in commands() if command.startswith("calve demo")})


def has_spark(page: Path) -> bool:
    return any("pyspark" in block for block in blocks(page, "python"))


WITH_EXAMPLES = [page for page in PAGES if blocks(page, "python") and page not in WALKED]
RUNNER = """
import json, sys
for page, examples in json.load(open(sys.argv[1], encoding="utf-8")):
    namespace = {"__name__": "__main__"}
    for number, example in enumerate(examples, start=1):
        exec(compile(example, f"{page}, example {number}", "exec"), namespace)
"""
SESSION = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""What a page need not say, and would have a test take longer."""


@pytest.mark.parametrize("page", [page for page in WITH_EXAMPLES if not has_spark(page)], ids=name)
def test_the_examples_of_a_page_run(page, tmp_path):
    """In a process of its own: an example that leaves something open is not saved by the test's. Commands of
    the page come after, on what its examples made."""
    run_examples([page], tmp_path, os.environ)
    for command in commands([page]):
        if command not in demos():
            done = run_command(command, tmp_path / "folder")
            assert done.returncode == 0, f"{command}\n{done.stderr}"


@pytest.mark.timeout(600)
def test_the_examples_with_spark_run(tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()
    settings = "".join(f"{name} {value}\n" for name, value in SESSION.items())
    (conf / "spark-defaults.conf").write_text(settings, "utf-8")
    env = {**os.environ, "SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": sys.executable}
    pages = [page for page in WITH_EXAMPLES if has_spark(page)]
    assert {name(page) for page in pages} >= {"README.md", "docs/spark.md"}
    run_examples(pages, tmp_path, env)


def run_examples(pages: list[Path], tmp_path: Path, env: Mapping[str, str]) -> None:
    examples = tmp_path / "examples.json"
    examples.write_text(json.dumps([(name(page), blocks(page, "python")) for page in pages]), "utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    call = [sys.executable, "-W", "error::ResourceWarning:calve", "-c", RUNNER, str(examples)]
    result = subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_main_pages_have_examples():
    """An empty list of examples would pass in silence."""
    assert len(blocks(ROOT / "README.md", "python")) >= 2
    assert len(blocks(ROOT / "docs" / "sink.md", "python")) >= 6
    assert len(blocks(ROOT / "docs" / "spark.md", "python")) >= 6


def test_every_command_that_is_shown_is_understood(monkeypatch):
    """What a demo then does is shown by tests/integration/test_demo.py every day."""
    asked = []

    def note(demo, _):
        asked.append(demo)
        raise DemoFailed("not here", hint="At night.")

    monkeypatch.setattr(machine, "check_spark", lambda: None)
    monkeypatch.setattr(demo_module, "run_demo", note)
    shown = demos()
    for command in shown:
        done = CliRunner().invoke(app_module.app, command.split()[1:])
        assert "(DemoFailed): not here" in done.stderr, command
    assert len(asked) == len(shown) >= 2


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", demos())
def test_a_command_that_is_shown_works(command, tmp_path):
    result = run_command(command, tmp_path)
    assert result.returncode == 0, result.stderr


def run_command(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(folder)}
    call = [sys.executable, "-m", "calve.cli.main", *command.split()[1:]]
    return subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_every_command_that_is_no_demo_stands_on_a_page_whose_examples_it_runs_on():
    """Others would be run by nobody."""
    run = [page for page in WITH_EXAMPLES if not has_spark(page)]
    left = {command for page in PAGES if page not in run for command in commands([page])} - set(demos())
    assert left == set()


def test_every_make_target_that_is_shown_exists():
    targets = set(
        re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    )
    known = {target for line in targets for target in line.split()}
    shown = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z]+)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {"demo", "test"} <= shown
    assert shown - known == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_inside_the_repository_lead_somewhere(page):
    text = page.read_text("utf-8")
    broken = []
    for link in LINK.findall(text):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        path = page.parent / target if target else page
        if path.suffix == ".svg" and anchor in ("gh-light-mode-only", "gh-dark-mode-only"):
            anchor = ""  # when a picture is shown; GitHub and the site know both
        headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE) if path.is_file() else []
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        if not path.exists() or (anchor and anchor not in anchors):
            broken.append(link)
    assert broken == []


def test_every_test_that_a_page_names_exists():
    named = {match for page in PAGES for match in TEST.findall(page.read_text("utf-8"))}
    assert len(named) > 50
    missing = [
        f"{file}::{test}"
        for file, test in sorted(named)
        if not (path := ROOT / "tests" / file.removeprefix("tests/")).is_file()
        or f"def {test}(" not in path.read_text("utf-8")
    ]
    assert missing == []


def test_the_page_of_failures_is_up_to_date():
    """And every case that a test names has its line."""
    assert set(failures.tests_by_case()) - set(failures.CASES) == set(), "give the case its words"
    assert failures.PAGE.read_text("utf-8") == failures.page(), "run `python -m tests.docs.failures`"


def test_tables_that_are_made_from_code_are_up_to_date():
    """Every table of the list is on a page, and says what the code says."""
    places = [
        name for page in PAGES for name in re.findall(r"<!-- made: ([a-z-]+) -->", page.read_text("utf-8"))
    ]
    assert sorted(places) == sorted(pages.MADE)
    for path in pages.PAGES:
        text = (ROOT / path).read_text("utf-8")
        assert "<!-- made: " in text, path
        assert text == pages.made(text), f"{path}: run `make pages`"


def test_a_field_without_a_meaning_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / "m.py").write_text('class C:\n    a: int = 0\n    """Told."""\n    b: int = 0\n', "utf-8")
    with pytest.raises(ValueError, match=r"C\.b has no docstring"):
        pages.fields_of("m.py", "C")


def test_the_page_of_metrics_names_every_logger_step_and_key_of_the_code():
    said = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))

    def told(heading: str, name: str) -> set[str]:
        """What the first column of a table names."""
        table = said.partition(f"| {heading} |")[2].partition("\n\n")[0]
        firsts = re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)
        return {one for first in firsts for one in re.findall(f"`({name})`", first)}

    assert told("logger", r"calve\.[\w.]+") == loggers()
    assert told("step", r"\w+") == set(re.findall(r'\.timed\("(\w+)"\)', source))
    assert told("key", r"calve\.[\w-]+") == set(PROGRESS)
    assert told("key", r"crdb\.\w+") == set(re.findall(r'"(crdb\.\w+)"', source))


PROGRESS = Progress(
    "s", 1, 0, 1, UUID(int=1), "epoch", UUID(int=2), committed=3, anchor=4, positions={"a": 1}
).to_summary()
"""All keys that a snapshot can have of ours."""


def loggers() -> set[str]:
    """The loggers of the package, by the names that they are asked for."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for literal, of_module in re.findall(
            r'getLogger\((?:"([\w.]+)"|(__name__))\)', path.read_text("utf-8")
        ):
            module = path.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
            found.add(module if of_module else literal)
    return found


def test_every_case_that_is_listed_is_shown_by_a_test():
    assert set(failures.CASES) - set(failures.tests_by_case()) == set()
