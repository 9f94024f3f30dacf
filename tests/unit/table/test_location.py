"""Locations always say where they are."""

from __future__ import annotations

import pytest

from calve.store import local_path
from calve.table.location import as_uri


@pytest.mark.parametrize(
    "given, uri",
    [
        ("/a/b", "file:///a/b"),
        ("/a/b/", "file:///a/b"),
        ("file:/a/b", "file:///a/b"),
        ("file:///a/b/", "file:///a/b"),
        ("/a/../b", "file:///b"),
        ("/a b/100%/é", "file:///a b/100%/é"),
        ("s3://bucket/a/", "s3://bucket/a"),
        ("abfss://c@host/x", "abfss://c@host/x"),
    ],
)
def test_a_location_has_a_scheme_and_is_taken_literally(given: str, uri: str) -> None:
    assert as_uri(given) == uri
    assert as_uri(uri) == uri


def test_a_relative_folder_is_made_absolute(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert as_uri("warehouse") == f"file://{tmp_path}/warehouse"


def test_the_store_finds_what_the_location_says(tmp_path) -> None:
    assert local_path(as_uri(str(tmp_path))) == tmp_path
