"""What is said of a feed's tables before a query starts."""

from __future__ import annotations

from typing import Any, cast

import pytest

from calve.model.errors import ConfigError
from calve.runtime.spark.feed_writer import FeedWriter

CANARY = "c4nary-s3cret"


@pytest.mark.parametrize(
    "pattern,shown,hint",
    [
        ("lake.sales.", "'lake.sales.'", "lake.sales.{table}"),
        (
            f"iceberg:///shop/x?warehouse=w&catalog.uri=postgresql://me:{CANARY}@h/db",
            "'iceberg:///shop/x?…'",
            "iceberg://…/namespace/{table}?…",
        ),
    ],
)
def test_a_pattern_without_a_word_is_refused_and_no_query_of_a_url_shows(
    pattern: str, shown: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        FeedWriter.to_tables(cast(Any, None), pattern)  # refused before the feed is looked at
    assert f"the pattern {shown} would" in refused.value.message
    assert f"Write {hint} for" in refused.value.hint
    assert CANARY not in str(refused.value)
