"""What waits beside a checkpoint, read from a folder as a query leaves it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from calve import ConfigError, Diverged
from calve.model.progress import Progress
from calve.runtime.inspect.waits import Checkpoint
from calve.runtime.spark.stash import Manifest, Segment
from calve.store import NO_ACCESS

QUERY = "6a0b1f3e-0000-4000-8000-000000000001"
PROGRESS = Progress("s", 10, 5, 1, UUID(int=1), "column n (bigint)", positions={"checkpoint": QUERY})
MANIFEST = Manifest(
    micro_batch=7,
    generation=2,
    attempt=0,
    offsets="d",
    table="u",
    published=10,
    segments=(Segment("calve/segments/6-a", 12, 20, 30), Segment("calve/segments/7-b", 10, 40, 5)),
    waiting=("calve/outbox/7-c.jsonl",),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "metadata").write_text(json.dumps({"id": QUERY}))
    (tmp_path / "offsets").mkdir()
    return tmp_path


def keep(folder: Path, manifest: Manifest, inside: str = "calve") -> None:
    stash = folder / inside / "stash"
    stash.mkdir(parents=True, exist_ok=True)
    (stash / manifest.name).write_text(manifest.to_json())
    for number, segment in enumerate(manifest.segments):
        place = folder / inside / segment.path.removeprefix("calve/")
        place.mkdir(parents=True, exist_ok=True)
        (place / "part-0.parquet").write_bytes(b"x" * (100 + number))
        (place / ".part-0.parquet.crc").write_bytes(b"crc")
        (place / "_SUCCESS").write_bytes(b"")


def look(folder: Path, sink_id: str = "s", progress: Progress | None = PROGRESS):
    return Checkpoint(str(folder), NO_ACCESS).look(sink_id, progress)


def test_rows_segments_and_bytes_that_wait_are_counted(folder: Path) -> None:
    keep(folder, MANIFEST)
    stashed, remarks = look(folder)
    assert (stashed.rows, stashed.segments, stashed.bytes, stashed.least) == (35, 2, 201, 10)
    assert (stashed.checkpoint, stashed.micro_batch, stashed.files_of_open_batches) == (QUERY, 7, 1)
    assert not stashed.ready
    assert remarks == ()


def test_a_location_with_a_scheme_is_the_same_folder(folder: Path) -> None:
    keep(folder, MANIFEST)
    stashed, _ = Checkpoint(folder.as_uri() + "/", NO_ACCESS).look("s", PROGRESS)
    assert stashed is not None
    assert stashed.rows == 35


def test_a_micro_batch_that_is_written_and_not_committed_is_told(folder: Path) -> None:
    keep(folder, replace(MANIFEST, ready="calve/outbox/7-d.jsonl", published=11))
    assert look(folder)[0].ready
    assert not look(folder, progress=replace(PROGRESS, frontier=11))[0].ready


def test_what_a_fenced_run_wrote_does_not_count(folder: Path) -> None:
    keep(folder, MANIFEST)
    keep(folder, replace(MANIFEST, micro_batch=9, generation=1, segments=()))
    keep(folder, replace(MANIFEST, micro_batch=6, segments=()))
    assert look(folder)[0].rows == 35


def test_of_the_tables_of_a_feed_each_has_its_own_folder(folder: Path) -> None:
    keep(folder, MANIFEST, "calve/tables/shop.orders")
    keep(folder, replace(MANIFEST, segments=MANIFEST.segments[:1]), "calve/tables/shop.lines")
    assert [look(folder, sink)[0].rows for sink in ("shop.orders", "shop.lines")] == [35, 30]
    assert look(folder, "shop.none")[0].micro_batch is None


def test_a_checkpoint_without_a_stash_has_nothing_that_waits(folder: Path) -> None:
    stashed, _ = look(folder)
    assert (stashed.checkpoint, stashed.rows, stashed.micro_batch) == (QUERY, 0, None)


def test_a_checkpoint_of_another_query_is_remarked(folder: Path) -> None:
    known = replace(PROGRESS, positions={"checkpoint": "another"})
    _, (remark,) = look(folder, progress=known)
    assert remark.words == (
        f"{folder} is the checkpoint of query {QUERY}, and the sink was last written from another"
    )


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    for name in ("nowhere", ""):
        with pytest.raises(ConfigError, match="holds no checkpoint of a query"):
            look(tmp_path / name)


def test_one_that_a_pipeline_names_may_be_elsewhere(folder: Path) -> None:
    assert Checkpoint(str(folder / "nowhere"), NO_ACCESS, is_said=False).look("s", PROGRESS) == (None, ())
    keep(folder, MANIFEST)
    stashed, _ = Checkpoint(str(folder), NO_ACCESS, is_said=False).look("s", PROGRESS)
    assert stashed is not None
    assert stashed.rows == 35


@pytest.mark.parametrize("text", [b"{}", b"\xff\xfe", b'{"version": 99}'])
def test_a_manifest_that_cannot_be_read_is_an_error_and_not_nothing(folder: Path, text: bytes) -> None:
    keep(folder, MANIFEST)
    (folder / "calve" / "stash" / MANIFEST.name).write_bytes(text)
    with pytest.raises(Diverged):
        look(folder)
