"""Layouts: transforms with and without a width, in Iceberg's spelling."""

from __future__ import annotations

import pytest

from calve.model.errors import BadPartition
from calve.model.layout import WIDTH_MAX, PartitionField, SortField, Transform, TransformKind

WITH_WIDTH = {TransformKind.BUCKET, TransformKind.TRUNCATE}


@pytest.mark.parametrize("kind", TransformKind)
def test_bucket_and_truncate_take_a_width_and_the_others_none(kind: TransformKind) -> None:
    right, wrong = (16, None) if kind in WITH_WIDTH else (None, 16)
    assert Transform(kind, right).width == right
    with pytest.raises(BadPartition, match=kind.value):
        Transform(kind, wrong)


@pytest.mark.parametrize("width", [0, -1, WIDTH_MAX + 1])
def test_a_width_outside_its_range_is_refused(width: int) -> None:
    with pytest.raises(BadPartition, match="outside"):
        Transform(TransformKind.BUCKET, width)


def test_transforms_and_fields_say_themselves_as_people_write_them() -> None:
    bucket = Transform(TransformKind.BUCKET, 16)
    assert str(bucket) == "bucket[16]"
    assert str(Transform(TransformKind.DAY)) == "day"
    assert str(PartitionField("id", bucket)) == "bucket(16, id)"
    assert str(PartitionField("ts", Transform(TransformKind.DAY))) == "day(ts)"
    assert str(SortField("ts", descending=True, nulls_first=False)) == "ts desc nulls last"
    assert str(SortField("ts")) == "ts asc nulls first"
