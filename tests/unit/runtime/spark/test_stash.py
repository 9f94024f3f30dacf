"""Stash: what a micro-batch left is found again by the next run, and no other run can take it away (63)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.errors import Diverged, StoreError
from calve.model.time import TIME_MAX
from calve.runtime.spark.stash import Manifest, Place, Segment, Stash
from tests.support.checkpoints import Died, MemoryFiles

TIMES = st.integers(0, TIME_MAX)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
SEGMENTS = st.builds(Segment, NAMES, TIMES, TIMES, st.integers(0, 2**62), NAMES)
MANIFESTS = st.builds(
    Manifest,
    micro_batch=st.integers(0, 10**12),
    generation=st.integers(1, 10**6),
    attempt=st.integers(0, 9),
    offsets=NAMES,
    follows=st.none() | NAMES,
    frontier=TIMES,
    marks=st.dictionaries(NAMES, TIMES, max_size=3),
    table=st.none() | NAMES,
    closed=TIMES,
    placed=TIMES,
    interval=st.none() | TIMES,
    published=TIMES,
    segments=st.lists(SEGMENTS, max_size=3).map(tuple),
    waiting=st.lists(NAMES, max_size=3).map(tuple),
    ready=st.none() | NAMES,
    quarantine=st.none() | NAMES,
    quarantined=st.none() | st.integers(0, 10**12),
    ahead=st.lists(st.builds(Place, st.integers(0, 10**12), NAMES), max_size=3).map(tuple),
)


# -- manifests ------------------------------------------------------------------------------------


@given(MANIFESTS)
def test_a_manifest_reads_back_as_it_was_written(manifest: Manifest) -> None:
    assert Manifest.from_json(manifest.to_json(), "m") == manifest


def test_times_are_text_because_many_readers_of_json_keep_only_53_bits() -> None:
    great = TIME_MAX
    written = manifest(
        1, frontier=great, marks={"p": great}, closed=great, placed=great, interval=great, published=great,
        segments=(Segment("s", great, great, 1),),
    )  # fmt: skip
    lossy = json.dumps(json.loads(written.to_json(), parse_int=lambda digits: int(float(digits))))
    assert Manifest.from_json(lossy, "m") == written


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "{}", '{"version": 2}', '{"version": 1, "micro_batch": 1}', '"x"', "7"],
)
def test_a_manifest_that_cannot_be_read_stops_the_sink_and_names_the_file(text: str) -> None:
    files = MemoryFiles({"calve/stash/0000000007-1-0.json": text})
    with pytest.raises(Diverged, match=r"0000000007-1-0\.json"):
        Stash(files)


def test_a_manifest_with_a_field_of_a_newer_release_stops_the_sink() -> None:
    body = json.loads(manifest(1).to_json()) | {"later": 1}
    with pytest.raises(Diverged, match="cannot be read"):
        Manifest.from_json(json.dumps(body), "m")


def test_what_is_not_a_manifest_is_left_alone() -> None:
    files = MemoryFiles({"calve/stash/notes.txt": "mine", "calve/stash/x.json.tmp": "half"})
    assert Stash(files).before(1) is None
    assert sorted(files.texts) == ["calve/stash/notes.txt", "calve/stash/x.json.tmp"]


def test_a_name_that_is_taken_is_refused_and_changes_nothing() -> None:
    files = MemoryFiles()
    stash = Stash(files)
    stash.save(manifest(3, frontier=1))
    with pytest.raises(StoreError):
        stash.save(manifest(3, frontier=2))
    found = Stash(files).before(4)
    assert found is not None
    assert found.frontier == 1


# -- which manifest counts ------------------------------------------------------------------------


def manifest(number: int, generation: int = 1, attempt: int = 0, **more: object) -> Manifest:
    return Manifest(number, generation, attempt, offsets=more.pop("offsets", "o"), **more)  # type: ignore[arg-type]


def stash_of(*manifests: Manifest) -> Stash:
    files = MemoryFiles()
    for one in manifests:
        files.write_new(f"calve/stash/{one.name}", one.to_json())
    return Stash(files)


def test_a_micro_batch_stands_on_the_last_word_on_the_one_before() -> None:
    first, second, third = manifest(4), manifest(4, attempt=1), manifest(4, generation=2)
    assert stash_of(first, second).before(5) == second
    assert stash_of(third, second, first).before(5) == third
    assert stash_of(first).before(6) is None
    assert stash_of(first).before(0) is None


def test_generations_and_attempts_are_numbers_not_texts() -> None:
    nine, ten = manifest(4, generation=9), manifest(4, generation=10)
    assert stash_of(ten, nine).before(5) == ten
    assert stash_of(manifest(4, attempt=10), manifest(4, attempt=9)).before(5) == manifest(4, attempt=10)


def test_an_earlier_attempt_counts_only_on_the_same_rows_and_the_same_state() -> None:
    before = manifest(4, generation=2)
    left = manifest(5, follows=before.name, offsets="abc")
    stash = stash_of(before, left)
    assert stash.of(5, before, "abc") == left
    assert stash.of(5, before, "abd") is None
    assert stash.of(5, manifest(4, generation=3), "abc") is None
    assert stash.of(5, None, "abc") is None


def test_attempts_of_a_run_are_counted_by_run() -> None:
    stash = stash_of(manifest(5), manifest(5, attempt=1), manifest(5, generation=2), manifest(6))
    assert [stash.attempts(5, generation) for generation in (1, 2, 3)] == [2, 1, 0]


def test_case_63_what_a_fenced_run_writes_is_on_its_own_chain_and_does_not_count() -> None:
    common = manifest(3, generation=1)
    ours = manifest(4, generation=2, follows=common.name, frontier=40)
    zombie = manifest(4, generation=1, follows=common.name, frontier=39, attempt=7)
    zombie_next = manifest(5, generation=1, follows=zombie.name)
    stash = stash_of(common, ours, zombie, zombie_next)
    assert stash.before(5) == ours
    assert stash.of(5, ours, "o") is None


# -- what goes, and when --------------------------------------------------------------------------


def segment(name: str) -> Segment:
    return Segment(f"calve/segments/{name}", 0, 1, 1)


def test_the_micro_batch_that_was_committed_and_the_one_before_it_stay() -> None:
    a, b, c = segment("a"), segment("b"), segment("c")
    files = MemoryFiles({one.path + "/part": "rows" for one in (a, b, c)})
    stash = Stash(files)
    first = manifest(1, segments=(a, b), ready="calve/outbox/1")
    second = manifest(2, follows=first.name, segments=(b, c))
    third = manifest(3, follows=second.name, segments=(c,))
    files.texts["calve/outbox/1"] = "files"
    for one in (first, second, third):
        stash.save(one)
    stash.prune(third, generation=1)
    assert sorted(files.texts) == [
        "calve/segments/b/part",
        "calve/segments/c/part",
        f"calve/stash/{second.name}",
        f"calve/stash/{third.name}",
    ]


def test_case_63_prune_leaves_what_a_later_generation_wrote() -> None:
    a, b = segment("a"), segment("b")
    files = MemoryFiles({a.path: "rows", b.path: "rows"})
    stash = Stash(files)
    stash.save(manifest(1, generation=2, segments=(a,)))
    stash.save(manifest(2, generation=3, segments=(b,)))
    kept = manifest(5, generation=2)
    stash.save(kept)
    stash.prune(kept, generation=2)
    assert b.path in files.texts
    assert a.path not in files.texts
    assert f"calve/stash/{manifest(2, generation=3).name}" in files.texts


def test_what_killed_runs_left_without_a_name_goes_with_the_first_commits_of_the_next() -> None:
    left = [
        "calve/outbox/3-a.jsonl",
        "calve/outbox/4-b.jsonl",
        "calve/segments/2-c/part",
        "calve/segments/4-d/part",
    ]
    mine = segment("1-e")
    files = MemoryFiles(dict.fromkeys([*left, f"{mine.path}/part", "calve/outbox/notes"], "x"))
    stash = Stash(files)
    kept = manifest(4, follows=None, segments=(mine,))
    stash.save(kept)
    stash.prune(kept, generation=1)
    # The others are of this micro-batch: a run that claims from now on may have written them.
    assert [name for name in left if name in files.texts] == [left[1], left[3]]
    assert f"{mine.path}/part" in files.texts
    assert "calve/outbox/notes" in files.texts
    after = manifest(5, follows=kept.name, segments=(mine,))
    stash.save(after)
    stash.prune(after, generation=1)
    assert not [name for name in left if name in files.texts]
    files.texts["calve/outbox/3-late.jsonl"] = "x"
    stash.prune(after, generation=1)
    assert "calve/outbox/3-late.jsonl" in files.texts, "twice a run: listing a folder may cost"


@pytest.mark.parametrize("writes_left", range(6))
def test_killed_while_it_prunes_the_next_prune_ends_it(writes_left: int) -> None:
    a, b = segment("a"), segment("b")
    files = MemoryFiles({a.path: "rows", b.path: "rows"})
    stash = Stash(files)
    first, second = manifest(1, segments=(a,)), manifest(2, segments=(b,))
    third = manifest(3, follows=None)
    for one in (first, second, third):
        stash.save(one)
    dying = files.again(writes_left)
    try:
        Stash(dying).prune(third, 1)
    except Died:
        pass
    after = dying.again()
    Stash(after).prune(third, 1)
    assert sorted(after.texts) == [f"calve/stash/{third.name}"]


# -- a query that dies anywhere, and goes on ------------------------------------------------------


class SegmentGone(Exception):
    """Rows that wait are not there. For a run that was fenced that is one of the ways to find out."""


@dataclass(slots=True)
class Table:
    """What outlives the runs: the fence, and what was committed."""

    generation: int = 0
    rows: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """A run that places row n in micro-batch n + 2: what it must keep for that are two segments."""

    files: MemoryFiles
    table: Table
    generation: int = 0
    stash: Stash | None = None

    def begin(self) -> None:
        self.table.generation += 1
        self.generation = self.table.generation
        self.stash = Stash(self.files)

    def micro_batch(self, number: int) -> None:
        assert self.stash is not None
        before = self.stash.before(number)
        assert (before is None) == (number == 0), "the state before is lost"
        known = self.stash.of(number, before, f"o{number}")
        self.commit(known or self.write(number, before))

    def write(self, number: int, before: Manifest | None) -> Manifest:
        assert self.stash is not None
        path = f"calve/segments/{number}-{self.generation}-{self.stash.attempts(number, self.generation)}"
        self.files.write_new(f"{path}/rows", str(number))
        waiting = () if before is None else before.segments
        for one in waiting:
            if self.files.read(f"{one.path}/rows") != str(one.lower):
                raise SegmentGone(one.path)
        made = Manifest(
            number,
            self.generation,
            self.stash.attempts(number, self.generation),
            offsets=f"o{number}",
            follows=None if before is None else before.name,
            segments=(*(one for one in waiting if one.lower > number - 2), Segment(path, number, number, 1)),
            ready=None if number < 2 else f"row {number - 2}",
        )
        self.stash.save(made)
        return made

    def commit(self, manifest: Manifest) -> None:
        assert self.stash is not None
        if manifest.ready is None:
            return
        if self.table.generation != self.generation:
            raise Died("fenced")
        row = int(manifest.ready.split()[1])
        if row not in self.table.rows:
            self.table.rows.append(row)
            self.stash.prune(manifest, self.generation)


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(3, 8))
def test_case_11_killed_again_and_again_every_row_is_placed_once(
    kills: list[int], micro_batches: int
) -> None:
    """Cases 6 and 11: killed after so many changes to the folder, again and again, then left in peace."""
    table, files, number = Table(), MemoryFiles(), 0
    run = Run(files, table)
    for writes_left in (*kills, None):
        files = files.again(writes_left)
        run = Run(files, table)
        try:
            run.begin()
            while number < micro_batches:
                run.micro_batch(number)
                number += 1
        except Died:
            continue
    assert table.rows == list(range(micro_batches - 2))
    # What a kill kept from being deleted goes with the next commit.
    last = Run(files.again(), table)
    last.begin()
    last.micro_batch(micro_batches)
    assert len(last.files.names("calve/stash")) == 2
    named = {one.path for one in last.stash.before(micro_batches + 1).segments}  # type: ignore[union-attr]
    kept = {f"calve/segments/{name}" for name in last.files.names("calve/segments")}
    before = {one.path for one in last.stash.before(micro_batches).segments}  # type: ignore[union-attr]
    assert kept == named | before


@given(st.lists(st.sampled_from(["old", "new"]), min_size=4, max_size=24), st.integers(0, 4))
def test_case_63_a_fenced_run_cannot_change_the_stash_of_the_run_that_fenced_it(
    turns: list[str], claimed_after: int
) -> None:
    """Both share one folder and take turns; the older one does not know that it is fenced before it commits
    something."""
    table, files = Table(), MemoryFiles()
    old, new = Run(files, table), Run(files, table)
    at = {"old": 0, "new": 0}
    old.begin()
    for _ in range(claimed_after):
        old.micro_batch(at["old"])
        at["old"] += 1
    new.begin()
    at["new"] = at["old"]
    ended = set()
    for who in turns:
        if who in ended:
            continue
        try:
            (old if who == "old" else new).micro_batch(at[who])
            at[who] += 1
        except (Died, SegmentGone):
            assert who == "old"
            ended.add(who)
    last = Run(files, table)
    last.begin()
    for number in range(at["new"], at["new"] + 3):
        last.micro_batch(number)
    assert table.rows == list(range(at["new"] + 1))


def test_replace_is_what_makes_a_second_attempt_another_manifest() -> None:
    first = manifest(3)
    assert replace(first, attempt=1).name != first.name
    assert len({manifest(3).name, manifest(30).name, manifest(3, generation=30).name}) == 3


def test_manifests_of_an_idle_table_do_not_pile_up_and_what_waits_is_kept():
    files = MemoryFiles()
    stash = Stash(files)
    segment = Segment("calve/segments/0-a", 1, 2, 1)
    last = None
    for number in range(6):
        segments = (segment,) if number == 0 else ()
        one = Manifest(number, 1, 0, "o", follows=None if last is None else last.name, segments=segments)
        stash.save(one)
        stash.thin(one, 1)
        last = one
    kept = [
        Manifest.from_json(files.read(f"calve/stash/{name}") or "", name)
        for name in files.names("calve/stash")
    ]
    assert [one.micro_batch for one in kept] == [0, 4, 5]
