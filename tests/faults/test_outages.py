"""Servers that are killed in the middle and come back, and disks that are full.

Cases 4, 22, 24, 27, 31, 33 and 35, on real servers; afterwards the same checks as after any other round.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from calve import CommitConflict, CommitUnknown, IcebergSink, SinkConfig, StoreError
from tests.faults.backends import BucketServer, ReferenceServer
from tests.faults.disk import SmallDisk
from tests.faults.proxy import Proxy, Request
from tests.faults.rounds import Conditions, play
from tests.faults.schedule import Kind, Scripted
from tests.support.servers.iceberg_rest import IcebergRest
from tests.support.servers.process import Server
from tests.support.servers.seaweedfs import SeaweedFS
from tests.support.sinks import Warehouse
from tests.support.truth import Source as Model
from tests.support.truth import check_every_snapshot

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

SEED = 3
ROWS = 1_500


class Trouble:
    """Something that is done a given time after certain commits were sent."""

    def __init__(
        self, at_ms: Mapping[int, float], act: Callable[[], None], first: Callable[[], object] | None = None
    ) -> None:
        """`at_ms`: by the number of the commit, how many milliseconds after it. `first`: what is done before
        the commit is let through."""
        self._at_ms = dict(at_ms)
        self._act = act
        self._first = first
        self._lock = threading.Lock()
        self.done = 0

    def watch(self, proxy: Proxy) -> None:
        proxy.before_forward = self._before

    def _before(self, request: Request) -> None:
        delay_ms = self._at_ms.pop(request.nth, None) if request.kind is Kind.COMMIT else None
        if delay_ms is not None:
            if self._first is not None:
                self._first()
            threading.Thread(target=self._do, args=(delay_ms,), daemon=True).start()

    def _do(self, delay_ms: float) -> None:
        with self._lock:  # one at a time
            time.sleep(delay_ms / 1000)
            self._act()
            self.done += 1


def restart(server: Server) -> Callable[[], None]:
    """SIGKILL, and another start."""

    def act() -> None:
        server.kill()
        server.start()

    return act


# A few deaths for every day, many for the night.
some_or_many = pytest.mark.parametrize("deaths", [2, pytest.param(12, marks=pytest.mark.nightly)])


@some_or_many
def test_a_catalog_that_is_killed_in_the_middle_of_commits_has_each_of_them_once(deaths: int) -> None:
    """Cases 22, 24 and 31."""
    random = Random(SEED)
    with IcebergRest() as server:
        trouble = Trouble({6 + 8 * one: random.uniform(0, 25) for one in range(deaths)}, restart(server))
        conditions = Conditions(Scripted(), timeout_ms=2_000, inserts=False, meanwhile=trouble.watch)
        play(SEED, ReferenceServer(server), conditions, epochs=8 + 9 * deaths)
    assert trouble.done == deaths


@some_or_many
def test_a_store_that_is_killed_in_the_middle_of_uploads_and_commits_loses_nothing(deaths: int) -> None:
    """Some die while the catalog writes its metadata, some later, in the next epoch's upload. Case 33."""
    random = Random(SEED)
    with SeaweedFS() as store, BucketServer.catalog_of(store) as catalog:
        trouble = Trouble({6 + 7 * one: random.uniform(0, 80) for one in range(deaths)}, restart(store))
        conditions = Conditions(
            Scripted(), timeout_ms=3_000, expected=(StoreError,), inserts=False, meanwhile=trouble.watch
        )
        play(SEED, BucketServer(catalog, store), conditions, epochs=8 + 8 * deaths)
    assert trouble.done == deaths


@pytest.mark.nightly
def test_a_store_that_is_killed_in_the_middle_of_a_large_upload_gets_every_row_once() -> None:
    """The file goes up in parts, some before the store's death, some after. Case 32."""
    rows = pa.table({"id": range(ROWS), "bytes": [Random(row).randbytes(20_000) for row in range(ROWS)]})
    with SeaweedFS() as store, BucketServer.catalog_of(store) as catalog:
        server = BucketServer(catalog, store)
        options = server.options(server.uri, "only", 20_000)
        options |= {"namespace": "large", "table.name": "t", "storage.s3.multipart.part-size-bytes": 5 << 20}
        del (
            options["catalog.prop.credential"],
            options["catalog.prop.oauth2-server-uri"],
        )  # nobody asks for it
        with IcebergSink(SinkConfig.from_options(options)) as sink:
            for epoch, delay_ms in enumerate((60, 150, 300)):
                death = threading.Timer(delay_ms / 1000, restart(store))
                death.start()
                _until_it_is_in(sink, epoch, rows)
                death.join()
        read = server.direct().load_table(("large", "t")).scan().to_arrow()
    assert sorted(read["id"].to_pylist()) == sorted([*range(ROWS)] * 3)
    assert set(read["bytes"].to_pylist()) == set(rows["bytes"].to_pylist())


def _until_it_is_in(sink: IcebergSink, epoch: int, rows: pa.Table) -> None:
    """Rows that were on their way when the store died are written again, as the error says."""
    for _ in range(20):
        try:
            if sink.begin_epoch(epoch):
                sink.write_batch(rows)
            sink.commit_epoch(epoch)
        except (StoreError, CommitUnknown) as error:
            print(error)
            sink.rollback_epoch(epoch)
        else:
            return
    raise AssertionError(f"epoch {epoch} was sent 20 times")


class CrampedSeaweedFS(SeaweedFS):
    """A store on a small disk."""

    def __init__(self) -> None:
        super().__init__(master_volumeSizeLimitMB="16", volume_max="20")
        self._data = self.folder / "data"
        self._data.mkdir()
        self.disk = SmallDisk(self._data, megabytes=96)

    def command(self) -> list[str]:
        return self.disk.inside(super().command())


def test_a_store_whose_disk_is_full_fails_cleanly_and_goes_on_when_there_is_room() -> None:
    """Case 35."""
    store = CrampedSeaweedFS()
    # Full before the commit goes on to the catalog, whose metadata then has no room: somebody notices,
    # however busy the machine is, in the middle of a run or at the end of one.
    trouble = Trouble({7: 3_000}, lambda: store.disk.free(), first=lambda: store.disk.fill())
    with store.disk, store, BucketServer.catalog_of(store) as catalog:
        conditions = Conditions(
            Scripted(), timeout_ms=3_000, expected=(StoreError,), inserts=False, meanwhile=trouble.watch
        )
        tally = play(SEED, BucketServer(catalog, store, store_retries=1), conditions, epochs=15)
    assert trouble.done == 1
    noticed = tally.met + tally.ends
    assert noticed["StoreError"] + noticed["CommitUnknown"], "nobody noticed that the disk was full"


def test_a_full_local_disk_is_a_clean_failure_and_the_epoch_is_committed_when_there_is_room(
    tmp_path: Path,
) -> None:
    """Files, metadata and the catalog's own database are on it. Case 35."""
    (tmp_path / "disk").mkdir()
    model = Model(("id",))
    with SmallDisk(tmp_path / "disk", megabytes=8) as disk:
        lake = Warehouse(disk.path)
        with lake.upsert() as sink:
            for epoch in range(12):
                rows = [{"id": epoch % 5, "v": f"{epoch}"}]
                model.apply(epoch, rows)
                sink.begin_epoch(epoch)
                sink.write_batch(pa.Table.from_pylist(rows))
                if epoch % 4 == 3:
                    disk.fill()
                    for _ in range(2):
                        with pytest.raises((StoreError, CommitUnknown, CommitConflict)):
                            sink.commit_epoch(epoch)
                    disk.free()
                sink.commit_epoch(epoch)
        assert check_every_snapshot(lake.load(), model) == 12
