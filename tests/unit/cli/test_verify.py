"""What `calve verify` prints: all that is known of a difference, within 80 columns."""

from __future__ import annotations

import pytest

from calve.cli.console import Manner, spoken
from calve.cli.verify import show_verified
from calve.runtime.spark.verify.compare import Compared, Difference
from calve.runtime.spark.verify.door import Verified

FRONTIER = "1794819610000000000.0000000001"


def printed(compared: Compared, capsys: pytest.CaptureFixture[str], note: str = "") -> str:
    with spoken(Manner(color=False)):
        show_verified(Verified("lake.shop.paid_orders", "orders", 17, FRONTIER, compared, note))
    return capsys.readouterr().out


def test_what_is_equal_is_told_in_a_line(capsys):
    said = printed(Compared(1, 1, 0, 0, 0, 0), capsys, note="Times are micro-batches.")
    assert said == (
        f"equal  lake.shop.paid_orders and orders as of {FRONTIER}: 1 row\n  Times are micro-batches.\n"
    )


def test_every_kind_of_difference_is_counted_and_shown_row_by_row(capsys):
    differences = (
        Difference({"id": 1}, {"id": 1, "total": "a"}, None),
        Difference({"id": 3}, None, {"id": 3, "total": None}, (), 2),
        Difference({"id": 5}, {"id": 5, "total": "a"}, {"id": 5, "total": "b"}, ("total",), 1),
        Difference({"id": 7}, None, {"id": 7, "total": "x" * 100}, (), 1),
    )
    said = printed(Compared(3, 1_005, 1, 1_000, 1, 1, differences), capsys)
    assert (
        said
        == f"""\
different  lake.shop.paid_orders and orders
  as of   {FRONTIER}
  source  3 rows
  table   1,005 rows, snapshot 17
  found   1 missing, 1,000 too many, 1 with other values, 1 more than once
  - missing  id = 1: total 'a'
  × 2 times  id = 3: total null
  ~ differs  id = 5
      total: 'a' in the source, 'b' in the table
  + too many id = 7: total '{"x" * 56}…
  … and 999 more; --limit shows more.
"""
    )
    assert all(len(line) <= 80 for line in said.splitlines()[:-3])
