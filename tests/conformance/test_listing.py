"""Names in lexical order, from behind a name on, over every store: what a source's offsets stand on."""

from __future__ import annotations

import pytest

from calve.model.errors import CalveError, StoreError
from calve.store import Access
from calve.store import listing as room
from calve.store.listing import list_after
from tests.support.places import ALL, OBJECT_STORES, WRONG, Place

on_every_store = pytest.mark.parametrize("place", ALL, indirect=True)
STRICT = [param for param in OBJECT_STORES if param.values[0] in ("seaweedfs", "azurite")]
"""Those that refuse wrong secrets."""

NAMES = [
    "2026-11-15/1.RESOLVED",
    "2026-11-16/00/10-a-topic-1.ndjson",
    "2026-11-16/00/10.RESOLVED",
    "2026-11-16/01/11-größe 100%-1.ndjson.gz",
    "2026-11-16/01/12.RESOLVED",
    "2026-11-17/2.RESOLVED",
    "flat.RESOLVED",
]


def fill(place: Place, names: list[str]) -> None:
    for name in names:
        with place.store.create(place.at(f"feed/{name}")) as stream:
            stream.write(b"x")
    with place.store.create(place.at("feed-of-another/2026-11-16/x")) as stream:
        stream.write(b"x")


def listed(place: Place, after: str = "") -> list[str]:
    return list(list_after(place.at("feed"), after, Access.of(place.settings)))


@on_every_store
def test_names_come_in_lexical_order_from_behind_any_name(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_PAGE", 2)
    fill(place, NAMES)
    assert listed(place) == sorted(NAMES) == NAMES
    for after in (*NAMES, "2026-11-16/00/10-b", "zzz"):
        assert listed(place, after) == [name for name in NAMES if name > after], after


@on_every_store
def test_a_folder_with_nothing_in_it_lists_nothing(place: Place) -> None:
    assert listed(place) == []


@on_every_store
def test_a_folder_is_sorted_with_its_slash(place: Place) -> None:
    fill(place, ["a-b/x", "a/x", "a0/x"])
    assert listed(place) == ["a-b/x", "a/x", "a0/x"]
    assert listed(place, "a") == ["a-b/x", "a/x", "a0/x"]


@pytest.mark.parametrize("place", STRICT, indirect=True)
def test_a_listing_that_is_denied_says_so_without_the_secret(place: Place) -> None:
    wrong = place.wrong_settings()
    with pytest.raises(CalveError, match=r"list .*/feed/") as denied:
        list(list_after(place.at("feed"), "", Access.of(wrong)))
    assert "403" in str(denied.value)
    assert WRONG not in str(denied.value)


def test_a_store_that_lists_in_another_order_is_refused() -> None:
    with pytest.raises(StoreError, match="lists a behind b"):
        list(room._in_order(iter(["b", "a"]), "s3://bucket/feed"))


def test_folders_that_end_before_the_name_are_not_looked_into() -> None:
    tree = {"": ["a/", "b/", "c/"], "b/": ["1/", "2/"], "b/2/": ["x"], "c/": ["y"]}
    looked: list[str] = []

    def entries(folder: str) -> list[str]:
        looked.append(folder)
        return tree[folder]

    assert list(room._walk(entries, "b/2/w")) == ["b/2/x", "c/y"]
    assert looked == ["", "b/", "b/2/", "c/"]
