"""Canaries: secrets go through the whole sink and come out nowhere (P10, cases 58 and 61)."""

from __future__ import annotations

import json
import logging
import pickletools
import traceback
from pathlib import Path

import pyarrow as pa
import pytest
from fastavro import reader

import calve
from calve import IcebergSink
from calve.model.file import FileClosed
from tests.support.sinks import Warehouse, changes, commit

CANARIES = {
    "catalog.prop.token": "canary-token-5f2a",
    "catalog.prop.credential": "client:canary-credential-77c1",
    "storage.s3.secret-access-key": "canary-s3-secret-90aa",
    "storage.s3.session-token": "canary-session-13bd",
}
PASSWORD = "canary-password-c0ffee"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def assert_silent(text: str) -> None:
    assert "canary" not in text, [line for line in text.splitlines() if "canary" in line][:3]


def test_no_secret_reaches_a_log_an_error_a_file_or_a_message(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    options = {**warehouse.options(write_mode="upsert", equality_delete_columns="id"), **CANARIES}
    errors = []
    with IcebergSink.from_options(options) as sink:
        commit(sink, 0, changes((1, "a", "I"), (2, "b", "I")))
        sink.begin_epoch(1)
        for bad in (
            changes((1, "a", "?")),
            pa.table({"id": [None], "v": ["x"]}),
            pa.table({"id": [1], "z": [1]}),
        ):
            with pytest.raises(calve.CalveError) as caught:
                sink.write_batch(bad)
            errors.append(caught.value)
        sink.write_batch(changes((1, "c", "u"), (2, "b", "D")))
        assert sink._current.epoch is not None
        assert sink._coordinator is not None
        ready = sink._current.epoch.close_files(sink._coordinator.base)
        messages = [file.to_json() for file in ready.files]
        sink.commit_epoch(1)
        with IcebergSink.from_options(options):
            with pytest.raises(calve.Fenced) as fenced:
                commit(sink, 2, changes((1, "c", "u")))
            errors.append(fenced.value)
        shown = [
            repr(sink),
            str(sink),
            repr(sink.config),
            str(sink.config),
            json.dumps(sink.config.describe()),
        ]
        shown += [repr(sink.metrics()), repr(sink.health_check()), repr(sink.capabilities())]
    for error in errors:
        shown += [repr(error), str(error), "".join(traceback.format_exception(error))]
    for text in (*shown, *messages, caplog.text, *capfd.readouterr()):
        assert_silent(text)
    names = [name for name in warehouse.files() if "/" in name]
    assert len(names) > 10
    for name in names:
        content = (warehouse.folder / name).read_bytes()
        assert b"canary" not in content, name
        if name.endswith(".avro"):
            with (warehouse.folder / name).open("rb") as stream:
                assert_silent(repr(list(reader(stream))))
    assert b"canary" not in (warehouse.folder / "catalog.db").read_bytes()


def test_a_password_in_the_catalogs_uri_shows_nowhere(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    options = {
        **warehouse.options(),
        "catalog.type": "sql",
        "catalog.uri": f"postgresql://ana:{PASSWORD}@127.0.0.1:1/lake?sslpassword={PASSWORD}",
    }
    sink = IcebergSink.from_options(options)
    with pytest.raises(calve.CalveError) as caught:
        sink.open()
    for text in (
        repr(sink),
        repr(sink.config),
        json.dumps(sink.config.describe()),
        "".join(traceback.format_exception(caught.value)),
        caplog.text,
        *capfd.readouterr(),
    ):
        assert_silent(text)


def test_case_61_nothing_that_is_read_back_is_a_pickle(warehouse: Warehouse, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    with warehouse.upsert(spill_folder=str(spill), memory_limit="32MB") as sink:
        commit(sink, 0, changes((1, "a", "I")))
        sink.begin_epoch(1)
        sink.write_batch(pa.table({"id": list(range(10_000)), "v": ["x" * 1_500] * 10_000}))
        sink.flush()
        assert sink._coordinator is not None
        found = [path for path in (*spill.rglob("*"), *warehouse.folder.rglob("*")) if path.is_file()]
        for path in found:
            assert not _is_pickle(path.read_bytes()), path
        assert sink._current.epoch is not None
        message = sink._current.epoch.close_files(sink._coordinator.base).files[0]
        assert json.loads(message.to_json())["version"] == 1
        assert FileClosed.from_json(message.to_json()) == message


def _is_pickle(content: bytes) -> bool:
    if not content:
        return False
    try:
        for _ in pickletools.genops(content):
            pass
    except (ValueError, IndexError, UnicodeDecodeError):
        return False
    return True
