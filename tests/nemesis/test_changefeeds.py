"""A changefeed of two tables whose drivers are killed: a short run and a long one, both for the night.

By day a driver is killed at the same step of a feed of Debezium (tests/integration/kafka), and the files of a
changefeed are read again after a run that failed (tests/integration/source).

A file of its own, because test processes share out files, and this takes as long as the others. The long one
on SQLite is that of test_nemesis.py, and the one on a catalog that commits to several tables at once that of
test_rest.py: both go through all kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nemesis.faults import steps_of, steps_on
from tests.nemesis.kinds import KINDS
from tests.nemesis.lakes import LocalLake
from tests.nemesis.nemesis import Nemesis, Plan, report
from tests.nemesis.processes import session_of

pytestmark = pytest.mark.spark

KIND = "changefeed"
SEED = 5
STEP = "commit: done"
"""Of the first table, where the second has nothing of the micro-batch."""


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    from tests.support.readers import duck_reader

    with duck_reader() as reader:
        yield reader.connection


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_feed_whose_driver_is_killed_shows_every_table_as_the_source_was(
    spark: Any, duck: Any, tmp_path: Path
) -> None:
    """Case 4, between the commits of two tables, cases 44, 45, 47 and 70."""
    plan = Plan(
        SEED,
        seconds=200,
        kinds=(KIND,),
        round_seconds=200,
        kills_max=1,
        only=("kill at a step",),
        steps=(STEP,),
    )
    nemesis = Nemesis(plan, tmp_path, duck, spark)
    tally = nemesis.run()
    print(report(nemesis))
    assert set(tally.kills) == {STEP}
    assert not [pid for driver in nemesis.drivers for pid in session_of(driver)]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_feed_whose_drivers_are_killed_at_every_step_shows_every_table_as_the_source_was(
    spark: Any, duck: Any, tmp_path: Path
) -> None:
    steps = steps_of(KINDS[KIND], steps_on(LocalLake))
    plan = Plan(SEED, 3000, (KIND,), round_seconds=400, kills_max=len(steps), only=("kill at a step",))
    nemesis = Nemesis(plan, tmp_path, duck, spark)
    nemesis.run()
    print(report(nemesis, steps))
    # A seam that was renamed would drop out in silence.
    assert set(steps) <= nemesis.steps_reached()
