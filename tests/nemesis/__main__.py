"""`make nemesis SECONDS=600 SEED=7`: drivers on real Spark, killed again and again; the tables, compared.

    python -m tests.nemesis --seconds 600 --seed 7 [--kind upsert-mark …] [--lake rest] [--cluster] [--keep]

Exit code 0: no violation. Otherwise the seed, what was done, the snapshot and the rows are printed.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType

from tests.nemesis.checker import Violation
from tests.nemesis.driver import jvm_dies_with_us
from tests.nemesis.kinds import KINDS
from tests.nemesis.lakes import Lakes, local_lake, rest_lakes
from tests.nemesis.nemesis import Nemesis, Plan, report
from tests.support.cluster import Cluster, standalone_cluster
from tests.support.readers import duck_reader
from tests.support.servers.seaweedfs import SeaweedFS
from tests.support.spark import start_session


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.nemesis", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=Random().randrange(10_000))
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="all of them by default")
    parser.add_argument("--round-seconds", type=float, default=150)
    parser.add_argument(
        "--lake", choices=["local", "rest"], default="local", help="SQLite and a folder, or REST and S3"
    )
    parser.add_argument("--cluster", action="store_true", help="on a standalone cluster, with its executors")
    parser.add_argument("--keep", action="store_true", help="keep the tables, also without a violation")
    parser.add_argument("--verbose", action="store_true", help="tell every fault when it happens")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    folder = Path(tempfile.mkdtemp(prefix="nemesis-"))
    _say(f"nemesis: seed {arguments.seed}, {arguments.seconds:.0f} s, in {folder}")
    kinds = tuple(arguments.kind or KINDS)
    plan = Plan(arguments.seed, arguments.seconds, kinds, arguments.round_seconds, verbose=arguments.verbose)
    # Procedures of another engine that lose against the sink are expected.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    jvm_dies_with_us()
    spark = start_session(folder / "spark")
    keep = True
    try:
        with (
            duck_reader() as duck,
            _cluster(arguments.cluster, folder) as cluster,
            _lakes(arguments.lake) as lakes,
        ):
            nemesis = Nemesis(plan, folder, duck.connection, spark, cluster, _say, lakes)
            try:
                nemesis.make_archive()
                nemesis.run()
                keep = arguments.keep
            except Violation as violation:
                _say(f"VIOLATION\n{violation}")
                return 1
            finally:
                _say(report(nemesis))
    finally:
        spark.stop()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


@contextmanager
def _cluster(wanted: bool, folder: Path) -> Iterator[Cluster | None]:
    if not wanted:
        yield None
        return
    with standalone_cluster(folder / "cluster") as cluster:
        yield cluster


@contextmanager
def _lakes(wanted: str) -> Iterator[Lakes]:
    if wanted == "local":
        yield local_lake
        return
    with SeaweedFS() as server:
        yield rest_lakes(server)


def _end(number: int, _: FrameType | None) -> None:
    """SIGTERM ends it as ctrl-c does: drivers are ended first."""
    _say(f"ended by signal {number}")
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
