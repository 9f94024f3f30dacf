"""PyIceberg's files over our store."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.io import load_file_io

from calve.model.errors import StoreError
from calve.table.fileio import IO_IMPL, StoreFileIO


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_files_are_written_read_and_removed_by_location(tmp_path: Path, scheme: str) -> None:
    io = load_file_io({"py-io-impl": IO_IMPL})
    assert isinstance(io, StoreFileIO)
    location = f"{scheme}{tmp_path}/a b/100%25.avro"
    output = io.new_output(location)
    assert not output.exists()
    with output.create() as stream:
        stream.write(b"content")
    assert (tmp_path / "a b" / "100%25.avro").read_bytes() == b"content", "paths are taken literally"
    assert len(output) == len(io.new_input(location)) == 7
    assert output.exists()
    assert output.to_input_file().exists()
    with io.new_input(location).open() as source:
        assert source.read() == b"content"
        source.seek(3)
        assert (source.tell(), source.read(2)) == (3, b"te")
    io.delete(output)
    assert not output.exists()


def test_a_file_is_never_written_twice_unless_that_is_meant(tmp_path: Path) -> None:
    io = StoreFileIO()
    output = io.new_output(f"{tmp_path}/f")
    output.create().close()
    with pytest.raises(StoreError, match="File exists"):
        output.create()
    with output.create(overwrite=True) as stream:
        stream.write(b"new")
    assert len(output) == 3


def test_files_that_are_not_there_and_places_that_are_not_ours_are_named(tmp_path: Path) -> None:
    io = StoreFileIO()
    for act in (lambda f: f.open(), len):
        with pytest.raises(StoreError, match="No such file"):
            act(io.new_input(f"{tmp_path}/nothing"))
    with pytest.raises(StoreError, match="No such file"):
        io.delete(f"{tmp_path}/nothing")
    with pytest.raises(StoreError, match="no store that calve knows"):
        io.new_input("hdfs://bucket/file")
