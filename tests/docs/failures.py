"""The page of failures, made from the tests themselves: `python -m tests.docs.failures`.

    names and docstrings of all tests ──cases──▶ docs/failures.md

A test shows a case if its name begins with the case's number (`test_case_36_…`) or if its docstring names
it ("cases 1 to 5 and 7"). So the page cannot claim a test that is not there, and a test of the
documentation fails when the page is behind.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "failures.md"

CASES = {
    1: "Killed before a file is written: nothing changed, and it goes on",
    2: "Killed in the middle of a file: an orphan, nothing else",
    3: "Killed between the files and the commit: one copy in the table",
    4: "Killed after the commit was sent: found in the table, or committed",
    5: "Killed after the commit, before the caller knows: skipped when it comes again",
    6: "Killed during recovery: recovering again gives the same",
    7: "Killed while the table is created: the table is adopted",
    8: "An executor is killed, a task is tried again or has a twin: one copy of each row",
    9: "Stopped for long while another run starts: fenced, exit code 1",
    10: "Two runs of one sink: one goes on, one is fenced",
    11: "Killed again and again: it still progresses",
    12: "The checkpoint is lost: refused until told, then nothing twice",
    13: "A checkpoint older than the table: the table wins, or a clear stop",
    14: "A table that was put back behind the checkpoint: `RolledBack`",
    15: "409 because of another writer: read, judge, try again",
    16: "409 for a request of ours that had landed: success",
    17: "A server error, not applied: look, then try again",
    18: "A server error, applied: success",
    19: "503, applied: unknown, then success",
    20: "429: look before sending again",
    21: "Connection lost after it was applied: success",
    22: "The answer never comes, or the request lands late: once",
    23: "An answer that is cut or broken: unknown",
    24: "The look fails too: unknown, files kept",
    25: "A replica that lags answers: ask again",
    26: "401 in the middle: one attempt, no end",
    27: "403: stop, keep files",
    28: "The table was dropped: stop, create nothing",
    29: "Dropped and created again: stop",
    30: "SQLite is locked: tried a bounded number of times",
    31: "The catalog is down for an hour: waited for",
    32: "A store that is slow (503): asked again",
    33: "A write whose answer was lost: names are unique",
    34: "An upload that never ends: no object, and nobody names it",
    35: "The disk is full: a clean error, nothing lost",
    36: "Power loss: all on the disk before the pointer moves",
    37: "Vended credentials run out in the middle of an upload",
    38: "Others compact during a batch: no row comes back, none is lost",
    39: "An orphan sweep with files in flight",
    40: "Others expire snapshots: progress stays",
    41: "A user's INSERT: tolerated and counted, or halted on",
    42: "A user's rollback or replacement: `RolledBack`, with what to do",
    43: "Schema or spec changed underneath: followed, or stopped with the reason",
    44: "Duplicates and replays in any order: dropped",
    45: "Changes of a key out of order: the last by sequence wins",
    46: "Insert and delete of a key in one batch: nothing remains",
    47: "A changed key: a delete and an insert",
    48: "A delete of a key that was never there: harmless",
    49: "A hundred thousand changes of one key: one row",
    50: "A value that PostgreSQL did not send (TOAST): its placeholder is never written",
    51: "Truncate: refused by name",
    52: "An idle source: no empty snapshots",
    53: "A source that lost what follows the frontier: refused",
    54: "Rows, keys, types, ops that do not fit: refused with their place",
    55: "Frontiers that repeat or go back: nothing is closed twice",
    56: "Hostile names: refused before anything is made",
    57: "Hostile partition values: encoded, and back",
    58: "Secrets: in no output",
    59: "Layouts are parsed, never spliced",
    61: "Nothing that is read back is pickled",
    62: "A premise breaks between write and commit: written again",
    63: "A fenced driver that shares the checkpoint: it cannot change what waits there",
    64: "A catalog that keeps no tag: refused",
    65: "A table that forgets old refs: the tag stays",
    66: "A micro-batch that landed comes again after its frontier moved: a replay, not late",
    67: "A key that moves through three partitions in one batch: one row",
    68: "Transactions whose LSNs interleave: none is taken for a replay",
    69: "A restored checkpoint whose next micro-batch has other rows: stopped, not skipped",
    70: "Files of a changefeed that appear late: listed again, read and counted",
}
GROUPS = {
    "Process": range(1, 15),
    "Catalog": range(15, 32),
    "Storage": range(32, 38),
    "Others at work": range(38, 44),
    "Source": range(44, 56),
    "Hostile input": range(56, 62),
    "Found in review": range(62, 71),
}

HEAD = "# What it survives\n\n" + " ".join(
    (
        "Made by `python -m tests.docs.failures`. Every line is a fault, what is then true, and the tests",
        "that show it. A number that is missing belongs to a part that is not there yet: object stores,",
        "other sources, maintenance. A fault is real where that can be arranged (SIGKILL, SIGSTOP, a full",
        "disk); elsewhere it is simulated from a seed, which a failing test prints.\n",
    )
)
_CASES_IN_TEXT = re.compile(r"[Cc]ases? (\d+(?:(?:–| to |, | and )\d+)*)")


def page() -> str:
    """The page as the tests are now."""
    shown = tests_by_case()
    parts = [HEAD]
    for group, numbers in GROUPS.items():
        rows = [
            f"| {number} | {CASES[number]} | {'<br>'.join(shown.get(number, ['not shown yet']))} |"
            for number in numbers
            if number in CASES
        ]
        head = "| case | what happens, and what is then true | shown by |\n|---|---|---|\n"
        parts.append(f"## {group}\n\n{head}" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def tests_by_case() -> dict[int, list[str]]:
    """The tests of every case, as `file::name`."""
    found: dict[int, list[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for function in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                for number in sorted(cases_of(function)):
                    name = f"`{file.relative_to(TESTS).as_posix()}::{function.name}`"
                    found.setdefault(number, []).append(name)
    return found


def cases_of(function: ast.FunctionDef) -> set[int]:
    """The cases that a test names."""
    named = re.match(r"test_case_(\d+)_", function.name)
    numbers = {int(named[1])} if named else set()
    for text in _CASES_IN_TEXT.findall(ast.get_docstring(function) or ""):
        numbers.update(_expand(text))
    return numbers


def _expand(text: str) -> Iterator[int]:
    """`1 to 5 and 7` as its numbers."""
    for piece in re.split(r", | and ", text):
        first, *last = re.split(r"–| to ", piece)
        yield from range(int(first), int(last[0] if last else first) + 1)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
