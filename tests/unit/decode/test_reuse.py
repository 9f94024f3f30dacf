"""What a worker leaves for its next task: nothing to read again, and everything can still be imported."""

from __future__ import annotations

import gc
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from calve.decode.reuse import settle


def test_archives_are_forgotten_and_can_still_be_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("calve_test_first.py", "VALUE = 1")
        archive.writestr("calve_test_second.py", "VALUE = 2")
    monkeypatch.syspath_prepend(str(tmp_path / "code.zip"))
    import calve_test_first  # type: ignore[import-not-found]

    assert _archives()
    settle()
    assert not _archives()
    import calve_test_second  # type: ignore[import-not-found]

    assert (calve_test_first.VALUE, calve_test_second.VALUE) == (1, 2)


def test_what_is_there_after_a_task_is_not_searched_for_garbage_again() -> None:
    settle()
    assert gc.get_freeze_count() > 1000


def _archives() -> list[str]:
    return [place for place, one in sys.path_importer_cache.items() if isinstance(one, zipimport.zipimporter)]
