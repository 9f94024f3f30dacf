"""A replay that is killed at every named step, and one that takes over: no row is doubled, none is lost.

A first run records its steps. Then, for every state of the disk that a step finds, both tables are put back
as they were, a fresh process replays up to that step and kills itself, and the next one replays to the end.
The table is read by DuckDB.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from calve import list_quarantine
from tests.support.kills import Ended, Job, Nursery
from tests.support.quarantines import NAME, SCHEMA, STRICT, UPSERT, Stream

pytestmark = pytest.mark.engines

IN_MEMORY = Path("/dev/shm")
PLAIN = SCHEMA.remove(3)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as started:
        yield started


@pytest.fixture
def folder() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    yield place
    shutil.rmtree(place)


class Scene:
    """A quarantine of which some rows fit, some are superseded, and some must be put back."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.place, self.backup = folder / "lake", folder / "backup"
        self.place.mkdir()
        if mode == "upsert":
            self.stream = Stream(self.place, dict(UPSERT))
            self.stream.send((1, 1, 1, "I"), (2, 2, 2, "I"), (1, None, 3, "u"), (2, None, 4, "u"))
            self.stream.send((2, 22, 6, "u"), (3, None, 7, "I"), (None, 1, 8, "u"))
            self.truth = [(1, None, 3), (2, 22, 6)]
            self.waits: list[object] = [3, None]
        else:
            self.stream = Stream(
                self.place,
                {"mode": "append"},
                {"time_column": "lsn", "frontier": "maximum"},
                PLAIN,
                STRICT.remove(3),
            )
            self.stream.send((1, 1, 1), (2, None, 2), (3, 3, None), frontier=5)
            self.truth = [(1, 1, 1), (2, None, 2)]
            self.waits = [3]
        self.stream.relax()
        shutil.copytree(self.place, self.backup)

    def reset(self) -> None:
        shutil.rmtree(self.place)
        shutil.copytree(self.backup, self.place)

    def job(self, **more: object) -> Job:
        return Job(str(self.place), "append", replay=NAME, options=self.stream.said, **more)  # type: ignore[arg-type]

    def check(self, when: str) -> None:
        assert self.stream.rows() == self.truth, when
        waits = list_quarantine(NAME, catalog=self.stream.said)
        assert sorted((one.row["id"] for one in waits), key=repr) == sorted(self.waits, key=repr), when
        assert len({one.id for one in waits}) == len(waits), when

    def steps(self, nursery: Nursery) -> tuple[list[str], list[int]]:
        """The steps of a whole run, and for each state of the disk the first of them."""
        self.reset()
        ended = finished(nursery.run(self.job(trace=True)))
        self.check("a run that nobody killed")
        names, states = ended.report["steps"], ended.report["states"]
        return names, [number for number, state in enumerate(states) if state not in states[:number]]


def finished(ended: Ended) -> Ended:
    assert ended.code == 0, ended.stderr
    return ended


def of_each_kind(names: list[str], steps: list[int]) -> list[int]:
    """The first step of each name between two acts of a sink: elsewhere the same happens to another file."""
    acts = [sum(name.startswith("sink:") for name in names[: number + 1]) for number in steps]
    first = {(act, names[number]): number for act, number in reversed(list(zip(acts, steps, strict=True)))}
    return sorted(first.values())


def check_kills(nursery: Nursery, scene: Scene, names: list[str], steps: list[int]) -> None:
    for number in steps:
        scene.reset()
        killed = nursery.run(scene.job(kill_at=number))
        assert killed.killed, f"step {number}, {names[number]}: {killed.stderr}"
        finished(nursery.run(scene.job()))
        scene.check(f"killed at step {number}, {names[number]}")


@pytest.mark.timeout(300)
def test_p3_a_replay_that_is_killed_anywhere_is_finished_by_the_next(nursery, folder):
    scene = Scene(folder, "upsert")
    names, distinct = scene.steps(nursery)
    assert names.count("sink: commit: done") == 2  # what is put back, and what goes in
    check_kills(nursery, scene, names, of_each_kind(names, distinct))


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["upsert", "append"])
def test_p3_a_replay_that_is_killed_at_every_single_step_is_finished_by_the_next(nursery, folder, mode):
    scene = Scene(folder, mode)
    names, _ = scene.steps(nursery)
    check_kills(nursery, scene, names, list(range(len(names))))


@pytest.mark.timeout(300)
def test_p3_a_replay_that_is_killed_while_it_goes_on_for_a_killed_one_is_finished_by_the_third(
    nursery, folder
):
    scene = Scene(folder, "upsert")
    names, _ = scene.steps(nursery)
    between = names.index("sink: commit: done")
    for number in range(0, len(names), 23):
        scene.reset()
        assert nursery.run(scene.job(kill_at=between)).killed
        nursery.run(scene.job(kill_at=number))
        finished(nursery.run(scene.job()))
        scene.check(f"killed again at step {number}")


def test_p4_a_replay_that_wakes_up_after_another_has_finished_is_fenced(nursery, folder):
    scene = Scene(folder, "upsert")
    names, _ = scene.steps(nursery)
    for number in (
        names.index("sink: commit: about to"),
        len(names) - names[::-1].index("sink: commit: about to") - 1,
    ):
        scene.reset()
        stopped = nursery.run(scene.job(stop_at=number))
        assert stopped.stopped
        finished(nursery.run(scene.job()))
        woken = nursery.wake(stopped)
        assert "Fenced" in woken.stderr
        scene.check(f"woken at step {number}")


def test_p8_the_stream_goes_on_while_a_replay_is_stopped_between_its_commits(nursery, folder):
    scene = Scene(folder, "upsert")
    names, _ = scene.steps(nursery)
    scene.reset()
    stopped = nursery.run(scene.job(stop_at=names.index("sink: commit: done")))
    scene.stream.made_with = SCHEMA
    scene.stream.send((1, 5, 9, "u"), (None, 2, 9, "u"))
    finished(nursery.wake(stopped))
    scene.truth = [(1, 5, 9), (2, 22, 6)]
    scene.waits = [3, None, None]
    scene.check("both went on")
