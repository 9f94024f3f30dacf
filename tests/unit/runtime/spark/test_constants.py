"""Values of partitions, as columns of files that lack them."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DateType, DecimalType, IcebergType, LongType, NestedField, StringType

from calve.runtime.spark.constants import partition_constants

DIGITS = 12345678901234567890123456789012345678


def constants(kind: IcebergType, value: Any, transform: Any = None) -> Any:
    schema = Schema(NestedField(1, "c", kind, False))
    spec = PartitionSpec(PartitionField(1, 1000, transform or IdentityTransform(), "p"), spec_id=3)
    metadata: Any = SimpleNamespace(specs=lambda: {3: spec})
    file: Any = SimpleNamespace(spec_id=3, scope=(3, (value,)))
    return partition_constants(metadata, schema)(file)


@pytest.mark.parametrize(
    "kind, value, shown",
    [
        (DecimalType(38, 4), DIGITS, Decimal("1234567890123456789012345678901234.5678")),
        (DecimalType(38, 38), -DIGITS, Decimal("-0.12345678901234567890123456789012345678")),
        (DecimalType(9, 2), 0, Decimal("0.00")),
        (LongType(), -(2**63), -(2**63)),
        (StringType(), "", ""),
        (StringType(), None, None),
    ],
)
def test_a_value_is_the_column_s_own_to_its_last_digit(kind: IcebergType, value: Any, shown: Any) -> None:
    ((field, array),) = constants(kind, value)
    assert (field, array.to_pylist()) == (1, [shown])


def test_a_date_is_a_date_and_a_day_of_another_column_says_nothing() -> None:
    ((_, array),) = constants(DateType(), 19_000)
    assert array.type == pa.date32()
    assert constants(DateType(), 19_000, DayTransform()) == ()
