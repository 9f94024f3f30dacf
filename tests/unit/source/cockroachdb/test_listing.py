"""Offsets: each file once, a RESOLVED file only when all before it was read, whatever races and restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.model.errors import Diverged, Overcompacted
from calve.source.cockroachdb import listing
from calve.source.cockroachdb.listing import Offset, files_between, next_offset, start_after
from calve.source.cockroachdb.names import RESOLVED


def at(second: int) -> str:
    return f"2026-11-16/202611161200{second:02d}0000000000000000000"


def data(second: int, number: int = 0) -> str:
    return f"{at(second)}-3f0c-1-1-{number:08x}-a-topic-1.ndjson"


def resolved(second: int) -> str:
    return f"{at(second)}{RESOLVED}"


class Bucket:
    """Names, and what happens to them while they are listed."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.asked: list[str] = []
        self.between_pages: Callable[[], None] = lambda: None
        self.page: Callable[[], int] = lambda: 1000

    def list(self, after: str) -> Iterator[str]:
        self.asked.append(after)
        while page := sorted(name for name in self.names if name > after)[: self.page()]:
            yield from page
            after = page[-1]
            self.between_pages()


def read(bucket: Bucket, offset: Offset, files_max: int = 0) -> tuple[Offset, list[str]]:
    found = next_offset(offset, (), bucket.list, files_max)
    found = Offset.of_json(json.loads(json.dumps(found.as_json())))
    return found, files_between(offset, found)


def test_nothing_is_read_before_it_is_resolved():
    bucket = Bucket(data(1), data(2))
    offset, files = read(bucket, Offset())
    assert (offset, files) == (Offset(), [])
    bucket.names.add(resolved(2))
    offset, files = read(bucket, offset)
    assert files == [data(1), data(2), resolved(2)]
    assert read(bucket, offset) == (offset, [])


def test_what_comes_behind_the_last_resolved_file_waits():
    bucket = Bucket(data(1), resolved(2), data(3))
    assert read(bucket, Offset())[1] == [data(1), resolved(2)]


def test_a_resolved_file_does_not_count_in_the_listing_that_first_shows_it():
    """A page is listed, then a data file is written that belongs on it, then the RESOLVED file, then the page
    with the RESOLVED file is listed."""
    bucket = Bucket(data(1))
    bucket.page = lambda: 1
    bucket.between_pages = lambda: bucket.names.update((data(0), resolved(2)))
    assert read(bucket, Offset())[1] == [data(0), data(1), resolved(2)]
    assert len(bucket.asked) == 2


def test_listings_begin_behind_the_resolved_file_before_the_last():
    bucket = Bucket(data(1), resolved(2), data(3), resolved(4), data(5), resolved(6))
    offset, _ = read(bucket, Offset())
    bucket.names.add(resolved(8))
    bucket.asked.clear()
    offset, _ = read(bucket, offset)
    assert set(bucket.asked) == {resolved(4)}
    assert offset.names == {data(5), resolved(6), resolved(8)}


def test_case_70_a_file_that_appears_late_is_read_and_counted():
    bucket = Bucket(data(1), resolved(2), data(3), resolved(4))
    offset, _ = read(bucket, Offset())
    bucket.names |= {data(3, 7), data(1, 7)}  # the second one lies too far back to be listed
    offset, files = read(bucket, offset)
    assert files == [data(3, 7)]
    assert (offset.late, offset.last) == (1, resolved(4))
    bucket.names.add(resolved(6))
    offset, files = read(bucket, offset)
    assert (files, offset.late) == ([resolved(6)], 1)


def test_a_resolved_timestamp_that_goes_back_is_passed_over():
    bucket = Bucket(data(1), resolved(2), resolved(6))
    offset, _ = read(bucket, Offset())
    bucket.names |= {resolved(4)}
    assert read(bucket, offset) == (offset, [])


def test_a_backlog_is_cut_at_resolved_files():
    bucket = Bucket(
        *(data(second) for second in range(1, 30, 2)), *(resolved(second) for second in range(2, 31, 2))
    )
    offset, sizes = Offset(), []
    while True:
        offset, files = read(bucket, offset, files_max=4)
        if not files:
            break
        assert files[-1].endswith(RESOLVED)
        sizes.append(len(files))
        assert len(sizes) < 10
        assert len(offset.names) <= 16
    assert sizes == [8, 8, 8, 6]


def test_more_files_than_a_micro_batch_holds_are_read_in_parts_and_resolved_at_the_end():
    bucket = Bucket(*(data(1, number) for number in range(10)), resolved(2))
    offset, parts = Offset(), []
    while True:
        offset, files = read(bucket, offset, files_max=4)
        if not files:
            break
        parts.append(files)
        assert len(parts) < 10
    assert [len(part) for part in parts] == [4, 4, 3]
    assert [resolved(2) in part for part in parts] == [False, False, True]


def test_a_listing_of_a_backlog_ends_where_the_micro_batch_does():
    bucket = Bucket(*(data(1, number) for number in range(100)), resolved(2))
    listed = []

    def count(after: str) -> Iterator[str]:
        for name in bucket.list(after):
            listed.append(name)
            yield name

    next_offset(Offset(), (), count, 10)
    assert len(listed) == 11


def test_a_feed_that_never_resolves_is_refused_before_offsets_grow_without_an_end(monkeypatch):
    monkeypatch.setattr(listing, "NAMES_MAX", 9)
    bucket = Bucket(*(data(1, number) for number in range(12)))
    offset, _ = read(bucket, Offset(), files_max=5)
    with pytest.raises(Overcompacted, match="RESOLVED"):
        read(bucket, offset, files_max=5)


def test_offsets_that_do_not_follow_each_other_are_refused():
    bucket = Bucket(data(1), resolved(2), resolved(4), resolved(6))
    first, _ = read(bucket, Offset())
    bucket.names |= {resolved(8), resolved(9)}
    second, _ = read(bucket, first)
    bucket.names |= {data(10), resolved(11)}
    third, _ = read(bucket, second)
    with pytest.raises(Diverged):
        files_between(first, third)
    with pytest.raises(Diverged):
        Offset.of_json({"version": 2})


def test_a_stream_may_begin_behind_a_resolved_file():
    bucket = Bucket(data(1), resolved(2), data(3), resolved(4))
    assert read(bucket, start_after(resolved(2)))[1] == [data(3), resolved(4)]
    with pytest.raises(Diverged, match="RESOLVED"):
        start_after(data(1))


def test_other_files_are_in_nobodys_way():
    bucket = Bucket(data(1), resolved(2), "_SUCCESS", "2026-11-16/.hidden")
    assert read(bucket, Offset())[1] == [data(1), resolved(2)]


# ---------------------------------------------------------------- whatever races


def written_by_a_changefeed(random: Random) -> list[str]:
    """Names in an order in which a changefeed may write them: a RESOLVED file comes after all data files that
    sort before it; data files come in any order, also ahead of earlier RESOLVED files."""
    intervals = [[data(2 * at + 1, number) for number in range(random.randrange(5))] for at in range(7)]
    written: list[str] = []
    for at, mine in enumerate(intervals):
        later = intervals[at + 1] if at + 1 < len(intervals) else []
        early = random.sample(later, random.randint(0, len(later)))
        later[:] = [name for name in later if name not in early]
        written += random.sample([*mine, *early], len(mine) + len(early))
        written.append(resolved(2 * at + 2))
    return written


@given(st.integers(0, 2**32))
@settings(max_examples=300)
def test_every_file_is_read_once_and_before_what_resolves_it(seed):
    """Files are written between the pages of listings, and runs are stopped and started again."""
    random = Random(seed)
    feed = written_by_a_changefeed(random)
    bucket, waiting = Bucket(), list(feed)

    def write(least: int = 0) -> None:
        for _ in range(random.randint(least, 3)):
            if waiting:
                bucket.names.add(waiting.pop(0))

    bucket.between_pages, bucket.page = write, lambda: random.randint(1, 4)
    files_max = random.choice([0, 1, 2, 5])
    offset, idle = Offset(), 0
    seen: list[str] = []
    while idle < 2:
        found, files = read(bucket, offset, files_max)
        idle = idle + 1 if found == offset and not waiting else 0
        write(1)
        if random.random() < 0.3:
            continue  # Spark died before it wrote the offset
        offset = found
        seen += files
        assert len(seen) == len(set(seen))
        for mark in (name for name in files if name.endswith(RESOLVED)):
            assert {name for name in feed if name < mark} <= set(seen), mark
    assert sorted(seen) == sorted(feed)
    assert offset.late == 0
