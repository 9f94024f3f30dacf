"""What a look for new files of a changefeed costs, with 100 old files in the bucket and with 100,000.

On a disk and on S3 (SeaweedFS on loopback). New are twenty files and two RESOLVED files: a look lists what
follows the RESOLVED file before the last, twice, and decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.changefeed import SECOND, START, name_of, paths_of, resolved_name
from benchmarks.figure import Figure, at_most
from benchmarks.measure import duel
from benchmarks.place import scratch
from benchmarks.rest import seaweedfs
from calve.source.cockroachdb.listing import files_between, next_offset, start_after
from calve.store.access import NO_ACCESS, Access
from calve.store.listing import list_after

_NEW = [
    *(name_of(START + SECOND, number) for number in range(20)),
    resolved_name(START),
    resolved_name(START + 2 * SECOND),
]


def run(quick: bool) -> list[Figure]:
    few, many, rounds = (10, 300, 2) if quick else (100, 100_000, 15)
    old = {"few": paths_of(few), "many": paths_of(many)}
    with scratch() as folder:
        for name, paths in old.items():
            for path in (*paths, *_NEW):
                place = folder / name / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
        found = [_figure("on a disk", old, rounds, folder.as_uri(), NO_ACCESS)]
    with seaweedfs() as server:
        storage = {name.removeprefix("storage."): str(value) for name, value in server.options.items()}
        access = Access.of({name: value for name, value in storage.items() if name.startswith("s3.")})
        root = "s3://bkt/listing"
        for name, paths in old.items():
            _put(f"{root}/{name}", [*paths, *_NEW], access)
        found.append(_figure("on S3", old, rounds, root, access))
    return found


def _figure(where: str, old: Mapping[str, Sequence[str]], rounds: int, root: str, access: Access) -> Figure:
    def look(name: str) -> None:
        start = start_after(old[name][-1])
        end = next_offset(start, (), lambda after: list_after(f"{root}/{name}", after, access))
        if files_between(start, end) != sorted(_NEW):
            raise AssertionError("new files were not found")

    took = duel(rounds, lambda _: look("many"), lambda _: look("few"))
    return Figure(
        f"new files among {len(old['many']):,} old ones, {where}",
        1000 * took.ours_s,
        "ms",
        at_most(1.3),
        1000 * took.peer_s,
        f"among {len(old['few'])}",
        1 / took.speedup,
    )


def _put(root: str, paths: list[str], access: Access) -> None:
    from calve.store import store_for

    store = store_for(root, access)

    def put(path: str) -> None:
        with store.create(f"{root}/{path}") as stream:
            stream.write(b"x")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(put, paths))
