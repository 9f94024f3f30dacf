"""Golden files: exact texts that tests compare, one file per text.

    tests/golden/<test module>/<name>.txt

`pytest --update-golden` writes the current text instead of comparing it. Read the diff before committing it.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "golden"


class Golden:
    """Compares texts with the golden files of one test module."""

    def __init__(self, module: str, *, update: bool) -> None:
        self._folder = ROOT / module.removeprefix("test_")
        self._update = update

    def check(self, name: str, text: str) -> None:
        """Fail if `text` differs from the golden file `name`, or write the file if the run updates."""
        path = self._folder / f"{_file_name(name)}.txt"
        text = _end_with_newline(text)
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            return
        if not path.exists():
            raise AssertionError(f"{path} is missing; the text is:\n{text}\n{_HOW_TO_UPDATE}")
        expected = path.read_text("utf-8")
        if text != expected:
            diff = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), path.name, "now", lineterm=""
            )
            raise AssertionError("\n".join([f"{path} differs:", *diff, _HOW_TO_UPDATE]))


_HOW_TO_UPDATE = "If the new text is right, run this test again with --update-golden."


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def _end_with_newline(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
