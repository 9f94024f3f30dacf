"""How Spark is told of files, and which of them it is not told of."""

from __future__ import annotations

import pytest

from calve.runtime.spark.carried import spark_bytes
from calve.runtime.spark.native import _is_plain, as_spark_says


@pytest.mark.parametrize(
    "path, said",
    [
        ("file:///a/b.parquet", "file:/a/b.parquet"),
        ("file:///a b/c%2Fd/#1.parquet", "file:/a%20b/c%252Fd/%231.parquet"),
        ("file:///'\"é 日本+&=@;,!~()|<>^`$_-.", "file:/'%22é%20日本+&=@;,!~()%7C%3C%3E%5E%60$_-."),
        ("file:///\u00a0\u0085\u2003", "file:/%C2%A0%C2%85%E2%80%83"),
        ("s3a://bucket/a b", "s3a://bucket/a%20b"),
    ],
)
def test_a_path_is_what_spark_says_of_its_rows(path: str, said: str):
    """As seen from PySpark 4.0, 4.1 and 4.3; tests on Spark read such files with deletes."""
    assert as_spark_says(path) == said


@pytest.mark.parametrize(
    "path, plain",
    [
        ("file:///a/b.parquet", True),
        ("file:///_a/.b/c.parquet", True),
        ("file:///a/_b.parquet", False),
        ("file:///a/.b.parquet", False),
        ("file:///a/b._COPYING_", False),
        ("file:///a*/b.parquet", False),
        ("file:///a[1]/b.parquet", False),
        ("file:///a{1}/b.parquet", False),
        ("file:///a?/b.parquet", False),
        ("file:///a\\b/c.parquet", False),
        ("file:///a:b/c.parquet", False),
    ],
)
def test_what_hadoop_takes_for_a_pattern_and_what_spark_passes_over_is_not_for_it(path: str, plain: bool):
    assert _is_plain(path) is plain


@pytest.mark.parametrize(
    "text, size",
    [
        ("10485760b", 10485760),
        ("128MB", 2**27),
        ("128m", 2**27),
        ("-1", -1),
        ("1g", 2**30),
        ("64 KiB", 2**16),
    ],
)
def test_sizes_are_read_as_spark_writes_them(text: str, size: int):
    assert spark_bytes(text) == size
