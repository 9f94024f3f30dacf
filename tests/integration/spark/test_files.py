"""Small files beside a checkpoint, on local disk and behind another of Hadoop's file systems."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from calve.model.errors import ConfigError, StoreError
from calve.runtime.spark.files import CheckpointFiles

pytestmark = pytest.mark.spark

PLACES = ["plain", "with a space", "ünïcode-氷山", "per%20cent"]


@pytest.fixture
def files(spark: Any, tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(spark, str(tmp_path / "checkpoint"))


@pytest.fixture
def mounted(spark: Any, tmp_path: Path) -> CheckpointFiles:
    """The same disk behind viewfs: a file system that is not local to Hadoop, so names come by rename."""
    spark.conf.set("fs.viewfs.mounttable.calve.link./lake", tmp_path.as_uri())
    # Mount tables are read when a file system is opened, and open ones are kept.
    spark.conf.set("fs.viewfs.impl.disable.cache", "true")
    return CheckpointFiles(spark, "viewfs://calve/lake/checkpoint")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("prefix", ["", "file:", "file://"], ids=["path", "file:/", "file:///"])
def test_a_checkpoint_is_a_path_or_a_file_uri_with_any_words_in_it(spark, tmp_path, prefix, place):
    root = tmp_path / place
    files = CheckpointFiles(spark, f"{prefix}{root}")
    files.write_new("calve/one file.json", "text")
    assert (root / "calve" / "one file.json").read_text(encoding="utf-8") == "text"
    assert CheckpointFiles(spark, str(root)).read("calve/one file.json") == "text"
    assert files.uri("calve/one file.json") == f"file:{root}/calve/one file.json"


@pytest.mark.parametrize("place", PLACES)
def test_spark_reads_below_the_uri(spark, tmp_path, place):
    files = CheckpointFiles(spark, str(tmp_path / place))
    files.write_new("rows/a.txt", "one\ntwo\n")
    assert [row.value for row in spark.read.text(files.uri("rows/a.txt")).collect()] == ["one", "two"]
    spark.range(3).write.parquet(files.uri("written"))
    assert spark.read.parquet(files.uri("written")).count() == 3


def test_a_relative_checkpoint_lies_where_spark_puts_it(spark):
    files = CheckpointFiles(spark, "some/checkpoint")
    path = spark._jvm.org.apache.hadoop.fs.Path("some/checkpoint/x")
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    assert files.uri("x") == path.getFileSystem(conf).makeQualified(path).toString()


@pytest.mark.parametrize("text", ["", "ünï\u2028\r\n\\n\ttab 氷山 😀\n", "\x00\x01"])
def test_text_comes_back_as_it_was(files, text):
    files.write_new("a", text)
    assert files.read("a") == text


def test_what_is_not_there_is_none_and_an_empty_folder(files):
    assert files.read("a") is None
    assert files.names("folder") == []
    assert files.names() == []
    files.write_new("folder/a", "")
    assert files.read("folder/b") is None
    assert files.names("folder/b") == []


@pytest.mark.parametrize("kind", ["files", "mounted"])
def test_a_name_is_written_once_and_the_first_text_stays(request, kind):
    files = request.getfixturevalue(kind)
    files.write_new("folder/a", "first")
    with pytest.raises(StoreError, match="already there") as raised:
        files.write_new("folder/a", "second")
    assert raised.value.hint
    assert files.read("folder/a") == "first"
    assert files.names("folder") == ["a"]


@pytest.mark.parametrize("kind", ["files", "mounted"])
def test_nothing_but_the_file_is_left_behind(request, tmp_path, kind):
    files = request.getfixturevalue(kind)
    files.write_new("folder/a", "text")
    with pytest.raises(StoreError):
        files.write_new("folder/a", "text")
    left = set(os.listdir(tmp_path / "checkpoint" / "folder"))
    assert left - {".a.crc"} == {"a"}  # viewfs has Hadoop's own checksums beside a file


def test_a_name_that_a_folder_has_is_refused(files):
    files.write_new("folder/a", "text")
    with pytest.raises(StoreError, match="already there"):
        files.write_new("folder", "text")
    assert files.names("folder") == ["a"]


def test_of_two_threads_that_create_one_name_one_wins(files):
    """Both find the name free: what decides is the act that gives it."""
    start = threading.Barrier(2)

    def write(name: str, text: str) -> str:
        start.wait()
        try:
            files.write_new(name, text)
        except StoreError as error:
            return "lost" if "is already there" in error.message else error.message
        return "won"

    with ThreadPoolExecutor(2) as pool:
        for attempt in range(30):
            name = f"race/{attempt:02d}"
            ends = list(pool.map(write, (name, name), ("left", "right")))
            assert sorted(ends) == ["lost", "won"], attempt
            assert files.read(name) == ("left" if ends[0] == "won" else "right")
    assert len(files.names("race")) == 30


def test_a_reader_sees_all_of_a_file_or_nothing(files):
    text = "0123456789" * 300_000
    done = threading.Event()

    def read() -> set[int]:
        seen = set()
        while not done.is_set():
            seen |= {len(files.read(f"folder/{name}") or "") for name in files.names("folder")}
        return seen

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            for number in range(5):
                files.write_new(f"folder/{number}", text)
        finally:
            done.set()
    assert reading.result() == {len(text)}


@pytest.mark.parametrize("kind", ["files", "mounted"])
def test_a_file_of_twenty_megabytes_passes_in_seconds(request, kind):
    files = request.getfixturevalue(kind)
    text = '{"path": "file:///lake/ordérs/data.parquet", "rows": 123}\n' * 350_000
    assert len(text.encode()) > 20_000_000
    files.write_new("large", text)
    assert files.read("large") == text


def test_names_are_sorted_and_leave_out_what_others_have_not_finished(files, tmp_path):
    for name in ("b", "a", "c/d"):
        files.write_new(f"folder/{name}", "")
    for name in (".b.crc", ".half.tmp"):
        (tmp_path / "checkpoint" / "folder" / name).touch()
    assert files.names("folder") == ["a", "b", "c"]
    assert files.names() == ["folder"]


def test_delete_takes_files_and_folders_and_what_is_not_there(files):
    for name in ("a", "folder/b", "folder/c/d"):
        files.write_new(name, "")
    files.delete("a")
    files.delete("folder")
    files.delete("folder")
    assert files.names() == []
    files.write_new("a", "again")
    assert files.read("a") == "again"


@pytest.mark.parametrize(
    "name", ["..", "../a", "a/../../b", "a/./b", "/a", "a//b", "a/", "", ".a", "a:b", "a*", "a\nb"]
)
def test_a_name_that_leads_elsewhere_is_refused(files, tmp_path, name):
    (tmp_path / "b").write_text("other", encoding="utf-8")
    for act in (files.read, files.delete, files.uri, lambda each: files.write_new(each, "")):
        with pytest.raises(StoreError, match="is not the name of a file below"):
            act(name)
    assert (tmp_path / "b").exists()


# ---------------------------------------------------------------- what the file system refuses


def test_not_there_is_said_only_where_it_is_certain(files, tmp_path):
    """A file where a folder should be: Java says 'not found', and a sink would begin anew."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "folder").touch()
    for act in (files.read, files.names, lambda name: files.write_new(name, "")):
        with pytest.raises(StoreError, match="folder/a") as raised:
            act("folder/a")
        assert raised.value.hint


def test_a_folder_is_not_read_as_a_file_nor_a_file_listed(files):
    files.write_new("folder/a", "")
    with pytest.raises(StoreError, match=r"cannot read .*/folder"):
        files.read("folder")
    with pytest.raises(StoreError, match="is a file"):
        files.names("folder/a")


def test_bytes_that_are_no_text_are_refused(files, tmp_path):
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "a").write_bytes(b"caf\xe9")
    with pytest.raises(StoreError, match=r"cannot read .*/a: it is not UTF-8 text"):
        files.read("a")


def test_a_file_system_that_spark_does_not_know_is_named_with_what_to_do(spark):
    with pytest.raises(StoreError, match="nosuch://bucket/checkpoint: UnsupportedFileSystem") as raised:
        CheckpointFiles(spark, "nosuch://bucket/checkpoint")
    assert "spark.jars" in raised.value.hint


@pytest.mark.parametrize("root", ["", "hdfs://no-such-host.invalid/checkpoint", "::"])
def test_a_place_that_is_none_is_a_store_error(spark, root):
    """PySpark turns some of Java's errors into its own: those too."""
    with pytest.raises(StoreError, match="cannot open"):
        CheckpointFiles(spark, root)


def test_a_checkpoint_that_spark_takes_for_a_pattern_is_refused(spark, tmp_path):
    with pytest.raises(ConfigError, match="pattern"):
        CheckpointFiles(spark, str(tmp_path / "day=[1]"))


def test_a_login_in_the_place_is_not_shown(spark):
    with pytest.raises(StoreError) as raised:
        CheckpointFiles(spark, "nosuch://user:hunter2@bucket/checkpoint")
    assert "hunter2" not in str(raised.value)


def test_a_disk_that_refuses_leaves_no_half_of_a_file(spark, tmp_path):
    """/proc takes no files, whoever asks."""
    files = CheckpointFiles(spark, "/proc/calve")
    with pytest.raises(StoreError, match="cannot write /proc/calve/a") as raised:
        files.write_new("a", "text")
    assert raised.value.hint
    assert files.read("a") is None
