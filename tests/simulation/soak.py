"""Many seeds on all cores, or one seed step by step.

python -m tests.simulation.soak --seeds 100000 [--start n] [--jobs n] [--fence main]
python -m tests.simulation.soak --seed 17 [--fence main]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from calve.config.sink import FenceKind
from tests.simulation.schedule import SeedFailed, run_seed

_CHUNK = 100


def main() -> int:
    parser = argparse.ArgumentParser(description="Run seeds of the simulation.")
    parser.add_argument("--seeds", type=int, default=100_000, help="how many (100000)")
    parser.add_argument("--start", type=int, default=0, help="the first (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (all cores)")
    parser.add_argument("--seed", type=int, help="this one alone, with its schedule")
    parser.add_argument("--fence", type=FenceKind, default=FenceKind.TAG, help="tag or main (tag)")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return replay(arguments.seed, arguments.fence)
    return soak(arguments.start, arguments.seeds, arguments.jobs, arguments.fence)


def replay(seed: int, fence: FenceKind) -> int:
    """One seed, with what happened in it."""
    try:
        outcome = run_seed(seed, fence)
    except SeedFailed as failed:
        print(failed)
        return 1
    print("\n".join(outcome.trace))
    print(f"seed {seed} is well: {outcome.snapshots} snapshots of main were compared row by row")
    return 0


def soak(start: int, seeds: int, jobs: int, fence: FenceKind) -> int:
    """Seeds from `start` on; the exit code says whether all were well."""
    chunks = [
        range(first, min(first + _CHUNK, start + seeds)) for first in range(start, start + seeds, _CHUNK)
    ]
    began = time.monotonic()
    done, met, failures = 0, Counter[object](), list[str]()
    with ProcessPoolExecutor(jobs) as pool:
        for chunk, (seen, failed) in zip(chunks, pool.map(partial(_chunk, fence), chunks), strict=True):
            done += len(chunk)
            met.update(seen)
            failures += failed
            for failure in failed:
                print(f"\n{failure}", flush=True)
            pace = done / (time.monotonic() - began)
            print(
                f"\r{done} of {seeds} seeds, {pace:.0f} a second, {len(failures)} failed", end="", flush=True
            )
    print()
    print(f"{met['committed']} commits and {met['claimed']} claims, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


def _chunk(fence: FenceKind, seeds: range) -> tuple[Counter[object], list[str]]:
    met, failures = Counter[object](), []
    for seed in seeds:
        try:
            met.update(run_seed(seed, fence).met)
        except SeedFailed as failed:
            failures.append(str(failed))
    return met, failures


if __name__ == "__main__":
    sys.exit(main())
