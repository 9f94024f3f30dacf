"""Proof that the tests can see: each promise of the pipeline is broken on purpose, and a story ends badly.

A few mutations and their stories are for every day; `make mutations` runs all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nemesis.checker import Violation
from tests.nemesis.kinds import KINDS
from tests.nemesis.mutations import MUTATIONS, Mutation
from tests.nemesis.stage import Stage
from tests.nemesis.stories import STORIES, Story

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    from tests.support.readers import duck_reader

    with duck_reader() as reader:
        yield reader.connection


_DAILY = {mutation.story for mutation in MUTATIONS if mutation.daily}


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, id=story.name, marks=() if story.tell in _DAILY else (pytest.mark.nightly,))
        for story in STORIES
    ],
)
def test_a_story_ends_well_on_code_that_keeps_its_promises(
    story: Story, spark: Any, duck: Any, tmp_path: Path
) -> None:
    story.tell(Stage(spark, duck, tmp_path, KINDS[story.kind]))


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(mutation, id=mutation.name, marks=() if mutation.daily else (pytest.mark.nightly,))
        for mutation in MUTATIONS
    ],
)
def test_code_that_is_broken_on_purpose_is_found_out(
    mutation: Mutation, spark: Any, duck: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kind,) = (story.kind for story in STORIES if story.tell is mutation.story)
    stage = Stage(spark, duck, tmp_path, KINDS[kind])
    mutation.break_it(monkeypatch)
    with pytest.raises(Violation) as found:
        mutation.story(stage)
    print(found.value)
