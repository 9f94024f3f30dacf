"""Commit latency by REST on loopback: a new table, and one with 2,000 snapshots, against PyIceberg `append`.

Two servers: Iceberg's own (Java, SQLite behind it, tables on the local disk) and SeaweedFS (tables in its
own S3). A commit is a small epoch from its first row to its snapshot, on the wall clock: what the server does
with 2,000 snapshots is in it, for us and for the peer alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog

from benchmarks.figure import Figure, at_least, at_most
from benchmarks.lake import NAMESPACE, commit_epoch, coordinator, grow, new_table, small_rows
from benchmarks.measure import Took, milliseconds, timed
from calve import IcebergSink, SinkConfig
from calve.table.catalogs import open_catalog

_MOST_MS = 500


@dataclass(frozen=True, slots=True)
class Server:
    """A REST server, as a sink and as PyIceberg's users are told of it."""

    name: str
    options: dict[str, str]
    peer: dict[str, str]

    def sink(self, table: str) -> IcebergSink:
        named = {"namespace": NAMESPACE, "table.name": table, "catalog.type": "rest"}
        return IcebergSink(SinkConfig.from_options(named | self.options)).open()

    def catalog(self) -> Catalog:
        named = {"namespace": NAMESPACE, "table.name": "any", "catalog.type": "rest"}
        return open_catalog(SinkConfig.from_options(named | self.options).catalog)


def run(quick: bool) -> list[Figure]:
    figures = []
    with iceberg_rest() as server:
        figures += _measure(server, quick)
    with seaweedfs() as server:
        figures += _measure(server, quick)
    return figures


@contextmanager
def iceberg_rest() -> Iterator[Server]:
    """Iceberg's own REST server."""
    from tests.support.servers.iceberg_rest import IcebergRest

    with IcebergRest() as server:
        yield Server("Iceberg's server", {"catalog.uri": server.uri}, {"uri": server.uri})


@contextmanager
def seaweedfs() -> Iterator[Server]:
    """SeaweedFS: the catalog and the store."""
    from tests.support.servers.seaweedfs import KEY, REGION, SECRET, SeaweedFS

    with SeaweedFS() as server:
        store = {
            "s3.endpoint": server.s3_uri,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": REGION,
        }
        options = {
            "catalog.uri": server.rest_uri,
            "warehouse": server.warehouse,
            "catalog.prop.credential": f"{KEY}:{SECRET}",
            **{f"storage.{name}": value for name, value in store.items()},
        }
        peer = {
            "uri": server.rest_uri,
            "warehouse": server.warehouse,
            "credential": f"{KEY}:{SECRET}",
            **store,
        }
        yield Server("SeaweedFS", options, peer)


def _measure(server: Server, quick: bool) -> list[Figure]:
    commits, rounds, height = (4, 1, 20) if quick else (40, 5, 2000)
    sink = server.sink("new")
    first = timed(commit_epoch, sink, 0)
    new = _commits(sink, commits)
    sink.close()
    catalog = server.catalog()
    for table in ("old", "peer"):
        grow(coordinator(catalog, new_table(catalog, table)), height)
    peer_table = RestCatalog("peer", **server.peer).load_table((NAMESPACE, "peer"))
    sink = server.sink("old")
    old: list[Took] = []
    peer: list[Took] = []
    for number in range(rounds):
        old += _commits(sink, commits // rounds)
        peer.append(timed(peer_table.append, small_rows(height + number)))
    sink.close()
    ratio = median(took.wall_s for took in peer) * 1000 / milliseconds(old)
    note = f"the first, with the table's creation and the claim: {first.wall_s * 1000:.0f} ms"
    return [
        Figure(
            f"{server.name}: commit on a new table",
            milliseconds(new),
            "ms",
            at_most(_MOST_MS, "ms"),
            note=note,
        ),
        Figure(
            f"{server.name}: commit at {height:,} snapshots", milliseconds(old), "ms", at_most(_MOST_MS, "ms")
        ),
        Figure(
            f"{server.name}: the same",
            milliseconds(old),
            "ms",
            at_least(5),
            milliseconds(peer),
            "PyIceberg append",
            ratio,
            f"by CPU time of the client {_cpu(peer) / _cpu(old):.1f}×",
        ),
    ]


def _commits(sink: IcebergSink, count: int) -> list[Took]:
    return [timed(commit_epoch, sink, sink.frontier()) for _ in range(count)]


def _cpu(took: list[Took]) -> float:
    return median(one.cpu_s for one in took)
