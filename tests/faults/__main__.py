"""`python -m tests.faults --seconds 600 --seed 7`: two runs of a sink, and a network that lies to them.

Exit code 0: no violation. Otherwise the seed, the round and the log of the proxy are named.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path
from random import Random

from calve import CalveError
from tests.faults.backends import ReferenceServer
from tests.faults.checker import Violation
from tests.faults.rounds import Plan, run
from tests.support.servers.iceberg_rest import IcebergRest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=Random().randrange(10_000))
    parser.add_argument("--epochs", type=int, default=80, help="of a round")
    parser.add_argument("--rounds", type=int, default=1_000_000, help="at most")
    parser.add_argument("--lanes", type=int, default=3, help="rounds at a time")
    arguments = parser.parse_args()
    for name in ("calve", "pyiceberg"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="calve-faults-"))
    plan = Plan(arguments.seed, arguments.seconds, arguments.epochs, arguments.rounds, arguments.lanes)
    _say(f"faults: seed {plan.seed}, {plan.seconds:.0f} s")
    with IcebergRest() as server:
        try:
            tally = run(plan, ReferenceServer(server), folder, _say)
        except (Violation, CalveError) as violation:
            _say(f"VIOLATION {type(violation).__name__}: {violation}")
            _say("\n".join(violation.__notes__))
            return 1
    _say(tally.report())
    folder.rmdir()
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
