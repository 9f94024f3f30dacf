from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import golden
from tests.support.golden import Golden


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "ROOT", tmp_path)


def test_a_missing_file_fails_and_shows_the_text() -> None:
    with pytest.raises(AssertionError, match=r"(?s)is missing; the text is:\nhello.*--update-golden"):
        Golden("test_texts", update=False).check("a name", "hello")


def test_an_update_writes_the_file_that_a_later_run_compares(tmp_path: Path) -> None:
    Golden("test_texts", update=True).check("CSV: no 'header'", "hello")
    assert (tmp_path / "texts" / "csv-no-header.txt").read_text() == "hello\n"
    Golden("test_texts", update=False).check("CSV: no 'header'", "hello")


def test_a_different_text_fails_with_a_diff() -> None:
    Golden("test_texts", update=True).check("a name", "hello\nworld")
    with pytest.raises(AssertionError, match=r"(?s)-world\n\+there"):
        Golden("test_texts", update=False).check("a name", "hello\nthere")
