"""`python -m tests.faults --seconds 600 --seed 7`: two runs of a sink, and a network that lies to them.

Exit code 0: no violation. Otherwise the seed, the round and the log of the proxy are named.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from calve import CalveError
from tests.faults.backends import BucketServer, ReferenceServer, SeaweedServer
from tests.faults.checker import Violation
from tests.faults.rounds import Plan, Server, run
from tests.support.servers.iceberg_rest import IcebergRest
from tests.support.servers.seaweedfs import SeaweedFS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=Random().randrange(10_000))
    parser.add_argument("--epochs", type=int, default=80, help="of a round")
    parser.add_argument("--rounds", type=int, default=1_000_000, help="at most")
    parser.add_argument("--lanes", type=int, default=3, help="rounds at a time")
    parser.add_argument("--server", choices=["reference", "bucket", "seaweedfs"], default="reference")
    arguments = parser.parse_args()
    for name in ("calve", "pyiceberg"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="calve-faults-"))
    plan = Plan(arguments.seed, arguments.seconds, arguments.epochs, arguments.rounds, arguments.lanes)
    _say(f"faults: seed {plan.seed}, {plan.seconds:.0f} s")
    with _server(arguments.server) as server:
        try:
            tally = run(plan, server, folder, _say)
        except (Violation, CalveError) as violation:
            _say(f"VIOLATION {type(violation).__name__}: {violation}")
            _say("\n".join(violation.__notes__))
            return 1
    _say(tally.report())
    folder.rmdir()
    return 0


@contextmanager
def _server(name: str) -> Iterator[Server]:
    if name == "reference":
        with IcebergRest() as started:
            yield ReferenceServer(started)
        return
    with SeaweedFS() as store:
        if name == "seaweedfs":
            yield SeaweedServer(store)
            return
        with BucketServer.catalog_of(store) as catalog:
            yield BucketServer(catalog, store)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
