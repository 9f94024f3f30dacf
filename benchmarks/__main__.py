"""Run the benchmarks: `python -m benchmarks [name …] [--quick] [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module

from benchmarks.figure import Figure, report

PLAIN = ("append", "latency", "group", "long_run", "resume", "upsert", "memory", "manifest")
ON_SERVERS = ("rest", "s3", "listing")
"""They start servers of their own: `make jars` brings those in Java."""

ON_SPARK = (
    "spark-append",
    "spark-upsert",
    "spark-long-run",
    "spark-memory",
    "spark-files",
    "spark-profile",
    "spark-decode",
    "spark-changefeed",
    "spark-read",
)
"""They need Java and the jars of the peers: `make jars`."""

NAMES = (*PLAIN, *ON_SERVERS, *ON_SPARK)
"""One module a name; each has `run(quick) -> list[Figure]` and says in its docstring what it measures."""


def _module(name: str) -> str:
    """`spark-long-run` is benchmarks/spark/long_run.py."""
    return "benchmarks." + name.replace("spark-", "spark.").replace("-", "_")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure calve beside its peers."
    )
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="tiny sizes: whether it runs, not how fast")
    parser.add_argument("--json", action="store_true", help="a JSON document instead of tables")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}: there are {', '.join(NAMES)}")
    found: dict[str, list[Figure]] = {}
    for name in arguments.names or NAMES:
        started = time.perf_counter()
        found[name] = import_module(_module(name)).run(arguments.quick)
        if not arguments.json:
            print(f"── {name} ({time.perf_counter() - started:.0f} s)\n{report(found[name])}\n", flush=True)
    if arguments.json:
        lines = {name: [figure.as_json() for figure in figures] for name, figures in found.items()}
        print(json.dumps({"quick": arguments.quick, "figures": lines}, indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
