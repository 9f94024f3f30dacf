"""Walk: a page of documentation, followed as a newcomer follows it: every block, in the order of the page.

    ```sh       bash -euo pipefail, where the block before left off; `# exit code 2` in its last line is meant
    ```python   one interpreter for the page; or a file, where the first line names one: # read.py
    ```sql      a file, where the first line names one: -- pipeline.sql; else calve reads it, and runs nothing
    ```text     what the block before it prints on a terminal of 80 columns; of one that fails, the error, too
    ```text, ```json, ```yaml     what cannot run here, where the words before it say "Not run by the tests"

Guarantee: nothing on a page is passed over. A block that is none of these is an error, with its line. Only
what installs calve itself is left out, where calve is installed already.

    python -m tools.walk docs/tutorial.md --record      writes what was printed into the page, if it differs
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from calve.model.errors import CalveError
from calve.sql.defined import Definitions
from calve.sql.read import read
from tools.newcomer import Failed, Newcomer
from tools.shown import is_shown

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "docs/tutorial.md",
    *(f"docs/guides/{page.name}" for page in sorted((ROOT / "docs/guides").glob("*.md"))),
)
"""The pages that are walked."""
NOT_RUN = "Not run by the tests"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(?:--|#) ([\w./-]+\.\w+)\n")
_CODE = re.compile(r"# exit code (\d+)")
_INSTALLS = "pip install '.["


class Stumbled(Exception):
    """A page that cannot be followed: where, why, and what was seen."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    """Of the fence."""
    language: str
    text: str
    before: str
    """The paragraph before it."""

    @property
    def file(self) -> str | None:
        """The file that its first line names."""
        named = _FILE.match(self.text) if self.language in ("sql", "python") else None
        return None if named is None else named[1]

    @property
    def exit_code(self) -> int:
        said = _CODE.search(self.text.rstrip().rpartition("\n")[2])
        return 0 if said is None else int(said[1])

    @property
    def is_expected(self) -> bool:
        """Whether it shows what the block before it prints."""
        return self.language == "text" and NOT_RUN not in self.before

    @property
    def installs(self) -> bool:
        return self.language == "sh" and _INSTALLS in self.text

    def stumbled(self, why: str, seen: str = "") -> Stumbled:
        return Stumbled(f"{self.page}:{self.line}: {why}\n{self.text}{'─' * 40}\n{seen}")


def blocks(page: str, text: str) -> list[Block]:
    """All blocks of a page."""
    found = []
    for match in _BLOCK.finditer(text):
        paragraph = text[: match.start()].rstrip().rpartition("\n\n")[2]
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match[1], match[2], " ".join(paragraph.split())))
    return found


def follow(page: str, text: str, newcomer: Newcomer) -> Iterator[tuple[Block, str]]:
    """Do all that a page says; gives back each block that shows what was printed, and what was."""
    printed: str | None = None
    for block in blocks(page, text):
        if not block.is_expected:
            printed = _do(block, newcomer)
        elif printed is None:
            raise block.stumbled(f"no block before it prints anything; if it cannot run, say {NOT_RUN!r}")
        else:
            yield block, printed
            printed = None


def _do(block: Block, newcomer: Newcomer | _Reader) -> str | None:
    """Do what a block says; what it printed, if it was run."""
    try:
        match block.language:
            case "sh":
                if block.installs and newcomer.is_equipped:
                    return None
                return newcomer.shell(block.text, block.exit_code)
            case "python" | "sql" if block.file is not None:
                newcomer.write(block.file, block.text)
                return None
            case "python":
                return newcomer.interpret(block.text)
            case "sql":
                read(block.text)
                return None
            case "text" | "json" | "yaml" if NOT_RUN in block.before:
                _check(block)
                return None
    except Failed as failed:
        raise block.stumbled(failed.why, failed.seen) from None
    except (CalveError, ValueError, yaml.YAMLError) as error:
        raise block.stumbled("it cannot be read", str(error)) from None
    raise block.stumbled(f"nobody runs such a block; if it cannot run, say {NOT_RUN!r}")


def _check(block: Block) -> None:
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        list(yaml.safe_load_all(block.text))


def check(page: str, text: str) -> None:
    """Whether a page could be followed, without following it: every block is of a kind that somebody runs or
    reads, and is written as its language wants it."""
    before: Block | None = None
    for block in blocks(page, text):
        if block.is_expected and (before is None or before.language not in ("sh", "python") or before.file):
            raise block.stumbled(f"no block before it prints anything; if it cannot run, say {NOT_RUN!r}")
        if not block.is_expected:
            _do(block, _Reader())
        before = block


class _Reader:
    """Someone who reads a page and types nothing."""

    is_equipped = False

    def shell(self, text: str, _: int) -> str:
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed("bash cannot read it", done.stderr)
        return ""

    def interpret(self, text: str) -> str:
        try:
            compile(text, "example", "exec")
        except SyntaxError as error:
            raise Failed("Python cannot read it", str(error)) from None
        return ""

    def write(self, name: str, text: str) -> None:
        if name.endswith(".sql"):
            Definitions.of_text(text, Path("/"))
        else:
            self.interpret(text)


def walk(page: str, newcomer: Newcomer) -> None:
    """Follow a page. It must show what is printed."""
    for block, printed in follow(page, (ROOT / page).read_text("utf-8"), newcomer):
        if not is_shown(block.text, printed, datetime.now(UTC)):
            raise block.stumbled("something else was printed", printed)


def record(page: str, newcomer: Newcomer) -> int:
    """Follow a page, and write into it what was printed where it shows something else; how often."""
    text = (ROOT / page).read_text("utf-8")
    seen = {}
    for block, printed in follow(page, text, newcomer):
        if not is_shown(block.text, printed, datetime.now(UTC)):
            lines = (line.rstrip() for line in printed.strip("\n").splitlines())
            seen[block.line] = "\n".join(lines).replace(str(newcomer.home), "…") + "\n"

    def recorded(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        return f"```{match[1]}\n{seen.get(line, match[2])}```"

    (ROOT / page).write_text(_BLOCK.sub(recorded, text), "utf-8")
    return len(seen)


def main() -> None:
    parser = argparse.ArgumentParser(description="Follow pages of the documentation.")
    parser.add_argument("pages", nargs="*", default=PAGES)
    parser.add_argument("--record", action="store_true", help="write what was printed into the page")
    asked = parser.parse_args()
    for page in asked.pages:
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="calve-") as home:
            with Newcomer.at(Path(home), Path(sys.executable).parent) as newcomer:
                if asked.record:
                    print(f"{page}: {record(page, newcomer)} blocks written")
                else:
                    walk(page, newcomer)
                    print(f"{page}: as it says")


if __name__ == "__main__":
    main()
