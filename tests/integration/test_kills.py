"""Real processes that are killed at every named step, and stopped while another run takes over.

A first run records its steps. Then, for every state of the disk that a step can find, a fresh process
runs to that step and kills itself; a new one checks the table as it was left, goes on, and checks it
again: every snapshot must equal the truth of its frontier, and every epoch must be there once. Cases
are those of docs/failures.md.

The folder is in memory where the machine has such a place: a killed process takes back nothing that it
wrote, so for a kill it does not matter whether the disk has it; the power loss has a test of its own.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import text

from calve import CalveError, CatalogError, CommitUnknown, IcebergSink, StoreError
from calve.config.catalog import CatalogConfig
from calve.table.catalogs import open_catalog
from tests.support.kill_truth import (
    CATALOG,
    EPOCHS,
    VARIANTS,
    Epoch,
    check_shown,
    named_files,
    pointer_of,
    read_table,
    workload,
)
from tests.support.kills import Ended, Job, Nursery, pieces, sink_options

ALL_EPOCHS = [number + 1 for number in range(1, EPOCHS + 1)]
IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a traced run: its number, its name, the case that a kill there is, and the epoch."""

    number: int
    name: str
    case: int
    epoch: int
    state: int


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def folder() -> Iterator[Path]:
    base = IN_MEMORY if IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="calve-kills-", dir=base) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def trace(nursery: Nursery) -> Callable[[str], list[Step]]:
    """The steps of a variant's run on nothing; traced once a process."""
    known: dict[str, list[Step]] = {}

    def traced(variant: str) -> list[Step]:
        if variant not in known:
            with tempfile.TemporaryDirectory(prefix="calve-trace-") as name:
                known[variant] = classified(nursery.run(Job(name, variant, trace=True, check=True)))
        return known[variant]

    return traced


def classified(ended: Ended) -> list[Step]:
    """The steps of a run with the case that a kill at each of them is."""
    assert ended.code == 0, ended.stderr
    assert ended.report["wrong"] == []
    case, epoch, steps = 7, 0, []
    for number, name in enumerate(ended.report["steps"]):
        if name == "sink: claim: done" or name.endswith(": about to begin"):
            case = 7 if case == 7 and name != "sink: claim: done" else 1
        elif name in ("data file: create: done", "delete file: create: done", "spill: lock: done"):
            case = 2
        elif name == "sink: commit: about to":
            case = 3
        elif name == "SQL: commit: done" and case == 3:
            case = 4
        elif name == "sink: commit: done":
            case = 5
        if name.startswith("epoch"):
            epoch = int(name.split()[1].rstrip(":"))
        steps.append(Step(number, name, case, epoch, ended.report["states"][number]))
    return steps


def distinct(steps: list[Step]) -> list[Step]:
    """One step for each state of the disk and case: a process that is killed leaves nothing but the disk."""
    return list({(step.state, step.case): step for step in reversed(steps)}.values())[::-1]


def clear(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def kill(nursery: Nursery, folder: Path, variant: str, step: Step) -> None:
    ended = nursery.run(Job(str(folder), variant, kill_at=step.number))
    assert ended.killed, (step, ended)
    assert ended.report["step"] == step.name


def check_resumes(nursery: Nursery, folder: Path, variant: str, step: Step | None = None) -> None:
    """A new run finds a right table, goes on, and leaves a right one with every epoch once."""
    from_start = step is None or step.number % 2 == 0
    again = nursery.run(Job(str(folder), variant, check=True, from_start=from_start))
    assert (again.code, again.report.get("wrong")) == (0, []), (step, again)
    assert again.report["frontiers"] == ALL_EPOCHS[: VARIANTS[variant].epochs], step
    assert list((folder / "spill").glob("*")) == [], step


# -- SIGKILL --------------------------------------------------------------------------------------

KILLS = {
    7: "while the table is created and claimed",
    1: "before a file of the epoch is written",
    2: "in the middle of a data or delete file",
    3: "between the files and the commit",
    4: "after the pointer moved and before the answer is read",
    5: "after the commit and before the caller knows",
}
BY_DAY_UPSERT = ["upsert", pytest.param("append", marks=pytest.mark.nightly)]
"""An append does what an upsert does, but for deletes."""


@pytest.mark.parametrize("variant", BY_DAY_UPSERT)
@pytest.mark.parametrize("case", KILLS, ids=lambda case: f"case_{case}_{KILLS[case].replace(' ', '_')}")
def test_killed_anywhere_it_goes_on_and_every_snapshot_is_right(nursery, trace, folder, variant, case):
    """Cases 1 to 5 and 7; P1, P2, P3, P5."""
    # The last epoch is like the one before it; the nightly test kills there too.
    steps = [step for step in distinct(trace(variant)) if step.case == case and step.epoch < EPOCHS]
    assert steps
    for step in steps:
        clear(folder)
        kill(nursery, folder, variant, step)
        check_resumes(nursery, folder, variant, step)


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_at_every_single_step_it_goes_on_and_every_snapshot_is_right(nursery, trace, folder, variant):
    """Cases 1 to 5 and 7: also at steps that find the disk as another step left it."""
    for step in trace(variant):
        clear(folder)
        kill(nursery, folder, variant, step)
        check_resumes(nursery, folder, variant, step)


def test_case_2_killed_while_it_spills_it_goes_on_and_sweeps_what_was_left(nursery, trace, folder):
    steps = [step for step in distinct(trace("spill")) if step.name.startswith("spill:") and step.epoch == 1]
    assert len(steps) >= 4
    for step in steps:
        clear(folder)
        kill(nursery, folder, "spill", step)
        check_resumes(nursery, folder, "spill", step)


def test_every_kind_of_step_is_a_place_of_death(trace):
    """The seams are real: were one of them gone from the product, its steps would be gone in silence."""
    names = {step.name for step in trace("upsert")} | {step.name for step in trace("spill")}
    kinds = ("data file", "delete file", "manifest", "manifest list", "metadata.json")
    acts = ("create: about to", "create: done", "half written", "fsync: about to", "fsync: done", "closed")
    wanted = {f"{kind}: {act}" for kind, act in itertools.product(kinds, acts)}
    wanted |= {
        f"{what}: {when}"
        for what in ("SQL: commit", "catalog: create namespace", "catalog: create table",
                     "catalog: load table", "catalog: commit table", "sink: claim", "sink: commit",
                     "spill: append", "spill: remove")
        for when in ("about to", "done")
    }  # fmt: skip
    assert wanted - names == set()


def test_case_6_killed_during_recovery_it_recovers_all_the_same(nursery, folder, tmp_path):
    """P3: the run that resumes after a kill is killed at each of its own steps, and a third one finishes."""
    pointer_not_moved = "epoch 2: rows taken in > catalog: write metadata.json: done"
    assert nursery.run(Job(str(folder), "upsert", kill_at=pointer_not_moved)).killed
    left = shutil.copytree(folder, tmp_path / "left")
    traced = nursery.run(Job(str(folder), "upsert", trace=True))
    landed = traced.report["steps"].index("sink: commit: done")
    for step in distinct(classified(traced)):
        if step.number <= landed:
            clear(folder)
            shutil.copytree(left, folder, dirs_exist_ok=True)
            kill(nursery, folder, "upsert", step)
            check_resumes(nursery, folder, "upsert", step)


@pytest.mark.parametrize("seed", range(4))
def test_case_11_killed_again_and_again_it_still_progresses(nursery, trace, folder, seed):
    """P2: the frontier never goes back, and a run that got as far as a commit leaves it further on."""
    random = Random(seed)
    variant = random.choice(["upsert", "append"])
    last = len(trace(variant))
    truths = workload(VARIANTS[variant])[1]
    frontier, runs = 0, 0
    while frontier < ALL_EPOCHS[-1] and runs < 40:
        ended = nursery.run(
            Job(str(folder), variant, kill_at=random.randrange(last // 2), from_start=runs % 2 == 0)
        )
        assert ended.killed or ended.code == 0, ended.stderr
        shown = read_table(folder, VARIANTS[variant].columns)
        assert check_shown(shown, truths) == []
        assert shown.frontier >= frontier
        frontier, runs = shown.frontier, runs + 1
    assert frontier == ALL_EPOCHS[-1], f"seed {seed}"


def test_case_11_killed_after_each_commit_it_publishes_one_epoch_a_run(nursery, folder):
    """Each run is killed when its commit has landed and nobody has heard of it."""
    for epoch in range(1, EPOCHS + 1):
        ended = nursery.run(Job(str(folder), "upsert", kill_at=landed(epoch)))
        assert ended.killed, ended.stderr
        assert read_table(folder, VARIANTS["upsert"].columns).frontier == epoch + 1


def landed(epoch: int) -> str:
    return f"epoch {epoch}: rows taken in > SQL: commit: done"


# -- SIGSTOP --------------------------------------------------------------------------------------


def fingerprint(folder: Path) -> dict[str, str]:
    """The catalog's pointer and every byte that the table is made of."""
    pointer = pointer_of(folder)
    files = [*named_files(folder), str(folder / CATALOG)]
    return {"pointer": str(pointer)} | {
        file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files
    }


@pytest.mark.parametrize("variant", BY_DAY_UPSERT)
def test_case_9_a_zombie_that_wakes_up_is_fenced_and_changes_nothing(nursery, trace, folder, variant):
    """P4: stopped at each step of an epoch up to the move of the pointer, overtaken, and continued."""
    steps = [step for step in distinct(trace(variant)) if step.epoch == 2 and step.case in (1, 2, 3)]
    # Of steps with one name, one; and none inside the SQL transaction, which has a test of its own.
    by_name = {step.name: step for step in steps if step.name != "SQL: commit: about to"}
    assert len(by_name) >= 10
    for step in by_name.values():
        clear(folder)
        zombie = nursery.run(Job(str(folder), variant, stop_at=step.number))
        assert zombie.stopped, (step, zombie)
        rival = nursery.run(Job(str(folder), variant, epochs=2, check=True))
        assert (rival.code, rival.report["wrong"], rival.report["frontiers"]) == (0, [], ALL_EPOCHS[:2]), step
        before = fingerprint(folder)
        woken = nursery.wake(zombie)
        assert woken.code == 1, (step, woken)
        assert "calve.model.errors.Fenced" in woken.stderr, step
        assert fingerprint(folder) == before, step
        check_resumes(nursery, folder, variant, step)


def test_case_10_a_claim_that_meets_a_locked_catalog_changes_nothing_and_the_holder_goes_on(nursery, folder):
    """A run that is stopped inside its SQL transaction holds SQLite's lock (case 30): the other gives up."""
    inside = "epoch 2: rows taken in > SQL: commit: about to"
    holder = nursery.run(Job(str(folder), "upsert", stop_at=inside))
    assert holder.stopped
    before = fingerprint(folder)
    impatient = {"catalog.uri": f"sqlite:///{folder / CATALOG}?timeout=0.1", "commit.attempts": "2"}
    rival = nursery.run(Job(str(folder), "upsert", options=impatient))
    assert rival.code == 1
    assert "calve.model.errors." in rival.stderr.splitlines()[-2], rival.stderr
    assert fingerprint(folder) == before
    woken = nursery.wake(holder)
    assert woken.code == 0, woken.stderr
    check_resumes(nursery, folder, "upsert")


@pytest.mark.parametrize("older_first", [True, False])
def test_case_10_of_two_runs_at_once_the_later_goes_on_whoever_wakes_first(nursery, folder, older_first):
    """P4."""
    about_to_commit = "epoch 2: rows taken in > sink: commit: about to"
    older, later = (nursery.run(Job(str(folder), "append", stop_at=about_to_commit)) for _ in range(2))
    assert older.stopped
    assert later.stopped
    order = [older, later] if older_first else [later, older]
    ended = {run.pid: nursery.wake(run) for run in order}
    assert ended[later.pid].code == 0, ended[later.pid].stderr
    assert ended[older.pid].code == 1
    assert "calve.model.errors.Fenced" in ended[older.pid].stderr
    check_resumes(nursery, folder, "append")


def test_a_fenced_run_ends_with_its_error_and_a_hint(nursery, folder):
    zombie = nursery.run(
        Job(str(folder), "append", stop_at="epoch 2: rows taken in > sink: commit: about to")
    )
    assert nursery.run(Job(str(folder), "append", epochs=0)).code == 0  # it only claims
    woken = nursery.wake(zombie)
    assert woken.code == 1
    assert "generation 2" in woken.stderr
    assert "hint: " in woken.stderr


# -- the disk -------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", BY_DAY_UPSERT)
def test_case_36_everything_is_on_the_disk_before_the_pointer_moves(nursery, folder, variant):
    """When the SQL transaction commits, no file that was written lacks its fsync, nor any folder entry."""
    for _ in range(2):  # creates, and resumes
        ended = nursery.run(Job(str(folder), variant, watch_disk=True, epochs=2))
        assert ended.code == 0, ended.stderr
        assert ended.report["commits"]
        assert [commit for commit in ended.report["commits"] if commit["dirty"] or commit["unlinked"]] == []
    shutil.rmtree(folder / "ns")
    (folder / CATALOG).unlink()
    ended = nursery.run(Job(str(folder), variant, watch_disk=True))
    assert len(ended.report["commits"]) >= EPOCHS
    assert set(named_files(folder)) <= set(ended.report["seen"]), "a file took another way to the disk"


def test_case_36_the_watch_would_see_a_file_that_was_not_synced(nursery, folder):
    ended = nursery.run(Job(str(folder), "upsert", watch_disk=True, lose_fsync=True))
    last = ended.report["commits"][-1]
    assert any(name.endswith(".parquet") for name in last["dirty"])
    assert any(name.endswith(".metadata.json") for name in last["dirty"])
    assert any(name.endswith(".avro") for name in last["unlinked"])


def test_case_36_sqlite_itself_waits_for_the_disk(tmp_path):
    catalog = open_catalog(CatalogConfig(warehouse=str(tmp_path)))
    with catalog.engine.connect() as connection:  # type: ignore[attr-defined]
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2, "FULL"
    catalog.close()


@pytest.mark.parametrize("memory", ["512MB", "32MB"], ids=["in a data file", "in a spill"])
def test_case_35_a_full_disk_is_a_clean_error_and_nothing_is_lost(nursery, folder, memory):
    """A file cannot grow past a limit, as on a full disk; then the limit is gone."""
    job = Job(str(folder), "spill", file_bytes_max=1_000_000, check=True, options={"memory.limit": memory})
    ended = nursery.run(job)
    assert ended.code == 1
    assert "calve.model.errors.StoreError" in ended.stderr, ended.stderr
    assert ended.report["wrong"] == []
    again = nursery.run(Job(str(folder), "spill", check=True, options={"memory.limit": memory}))
    assert (again.code, again.report["wrong"], again.report["frontiers"]) == (0, [], [2, 3]), again.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte, where this process may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=1m", "calve-test", str(disk)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("a small disk can be mounted by root only; the limit on files shows the same")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path, pages: int) -> Path:
    """Fill a disk until so many pages are free."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    os.truncate(filler, max(filler.stat().st_size - pages * 4096, 0))
    return filler


def test_case_35_wherever_the_disk_is_full_nothing_is_lost_and_the_same_sink_goes_on(small_disk):
    """With less and less room the epoch fails at another file each time; with room again it is committed."""
    variant = VARIANTS["upsert"]
    epochs, truths = workload(variant)
    failures = set()
    for pages in range(24):
        options = {**sink_options(small_disk, variant), "commit.attempts": "2"}
        with IcebergSink.from_options(options) as sink:
            send(sink, epochs[0])
            filler = fill(small_disk, pages)
            try:
                send(sink, epochs[1])
            except CalveError as error:
                failures.add(type(error))
                assert check_shown(read_table(small_disk, variant.columns), truths) == []
                filler.unlink()
                sink.rollback_epoch(2)
                send(sink, epochs[1])
            filler.unlink(missing_ok=True)
            send(sink, epochs[2])
        shown = read_table(small_disk, variant.columns)
        assert check_shown(shown, truths) == []
        assert [snapshot.frontier for snapshot in shown.main] == ALL_EPOCHS, pages
        clear(small_disk)
    assert StoreError in failures
    assert failures <= {StoreError, CommitUnknown, CatalogError}


def send(sink: IcebergSink, epoch: Epoch) -> None:
    sink.begin_epoch(epoch.number)
    for piece in pieces(epoch):
        sink.write_batch(piece)
    sink.commit_epoch(epoch.number)
