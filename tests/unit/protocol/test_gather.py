"""Gather: each file once, whatever is resent (P3)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.batch import Batch
from calve.model.errors import BadMessage
from calve.model.file import FileClosed, FileKind
from calve.protocol.gather import gather


def closed(path: str, lower: int = 0) -> FileClosed:
    return FileClosed(
        batch=Batch(lower, lower + 1),
        worker="w0",
        path=path,
        kind=FileKind.DATA,
        schema_id=0,
        spec_id=0,
        partition=(),
        record_count=1,
        file_bytes=10,
    )


FILES = st.lists(st.integers(0, 20), max_size=20).map(
    lambda numbers: [closed(f"f{n}", n % 3) for n in numbers]
)


@given(FILES, st.randoms(use_true_random=False))
def test_p3_messages_that_come_twice_and_in_any_order_are_one_file(files: list[FileClosed], random) -> None:
    resent = [FileClosed.from_json(file.to_json()) for file in files]
    shuffled = [*files, *resent]
    random.shuffle(shuffled)
    gathered = gather(shuffled)
    paths = [file.path for of_batch in gathered.values() for file in of_batch]
    assert sorted(paths) == sorted({file.path for file in files})
    assert list(gathered) == sorted(gathered)
    assert all(file.batch == batch for batch, of_batch in gathered.items() for file in of_batch)


def test_one_path_with_two_contents_is_a_mix_up_and_stops() -> None:
    with pytest.raises(BadMessage, match="f1 was reported twice with different content"):
        gather([closed("f1"), replace(closed("f1"), record_count=2)])


def test_one_path_in_two_batches_is_a_mix_up_too() -> None:
    with pytest.raises(BadMessage):
        gather([closed("f1", 0), closed("f1", 1)])


def test_no_message_is_no_batch() -> None:
    assert gather([]) == {}
