"""The local store: durable when closed, never overwritten by accident, errors that name the file."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from calve.model.errors import FileMissing, StoreError
from calve.store import LocalStore, local_path, store_for


@pytest.mark.parametrize(
    "location, path",
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:///a/x%20y", "/a/x%20y"),
        ("a/b", "a/b"),
        ("/a/b?c#d", "/a/b?c#d"),
    ],
)
def test_a_location_is_taken_literally(location: str, path: str) -> None:
    assert local_path(location) == Path(path)


@pytest.mark.parametrize("location", ["hdfs://n/p", "http://h/p"])
def test_a_store_that_nobody_knows_is_refused_with_those_that_are_known(location: str) -> None:
    with pytest.raises(StoreError, match="no store that calve knows") as caught:
        store_for(location)
    assert "s3:" in caught.value.hint


def test_case_36_a_closed_file_its_folder_and_new_folders_are_fsynced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with LocalStore().create(f"file://{tmp_path}/new/deep/file") as stream:
        stream.write(b"x")
        made = list(synced)
        assert made == [str(tmp_path), str(tmp_path / "new")]
    assert synced[len(made) :] == [str(tmp_path / "new/deep/file"), str(tmp_path / "new/deep")]


def test_a_file_that_exists_is_refused(tmp_path: Path) -> None:
    """Case 33: names are unique, so a second writer of one is a mistake."""
    store = LocalStore()
    with store.create(f"{tmp_path}/f") as stream:
        stream.write(b"first")
    with pytest.raises(StoreError, match="File exists"):
        store.create(f"{tmp_path}/f")
    assert (tmp_path / "f").read_bytes() == b"first"


def test_every_act_that_fails_says_which_file_and_why(tmp_path: Path) -> None:
    store = LocalStore()
    missing = f"{tmp_path}/missing"
    for act, word in ((store.open, "read"), (store.size, "look at"), (store.delete, "delete")):
        with pytest.raises(FileMissing, match=f"cannot {word} {missing}: No such file") as gone:
            act(missing)
        assert gone.value.hint.startswith("It was deleted or moved")
    assert not store.exists(missing)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot create") as refused:
        store.create(f"{tmp_path}/file/below")
    assert "Make room" in refused.value.hint


_FILL = """
import resource, signal, sys
from calve.model.errors import StoreError
from calve.store import LocalStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    with LocalStore().create(sys.argv[1]) as stream:
        stream.write(b"x" * 60_000)
        stream.write(b"y" * 60_000)
except StoreError as error:
    print(error)
    sys.exit(3)
finally:
    # What measures this process writes a file of its own when it ends.
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_case_35_a_disk_that_fills_up_is_an_error_of_the_store(tmp_path: Path) -> None:
    """A limit of the file's size cuts a write in the middle, as a full disk does."""
    assert resource.RLIMIT_FSIZE
    assert signal.SIGXFSZ
    ran = subprocess.run(
        [sys.executable, "-c", _FILL, f"{tmp_path}/big"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 3, ran.stderr
    assert f"{tmp_path}/big" in ran.stdout
    assert os.strerror(errno.EFBIG) in ran.stdout
