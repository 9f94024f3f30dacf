"""What a person is told of an error: which code, which words, and what to do."""

from __future__ import annotations

import errno
import os
import socket

import pytest
import typer

from calve.cli.signals import Terminated
from calve.cli.words import told
from calve.model.errors import BadRow, CalveError


def words(error: BaseException) -> tuple[str, str, str]:
    said = told(error)
    return said.code, said.message, said.hint


def test_an_error_of_ours_is_told_as_it_is():
    error = BadRow("row 3 does not fit", hint="Mend it.")
    assert told(error) is error


def test_an_error_that_one_of_ours_caused_is_told_in_its_words():
    error = BadRow("row 3 does not fit", hint="Mend it.")
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError("a task failed") from error
    assert told(raised.value) is error


def test_an_error_that_happened_while_one_of_ours_was_handled_is_told_itself():
    with pytest.raises(KeyError) as raised:  # noqa: PT012
        try:
            raise BadRow("row 3 does not fit", hint="Mend it.")
        except CalveError:
            os.environ["NOTHING"]
    assert words(raised.value)[:2] == ("CALVE-990", "KeyError: 'NOTHING'")


def test_a_full_disk_is_told_with_its_place():
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/spill")
    assert words(full) == (
        "CALVE-910",
        "no space left on device: /tmp/spill",
        "The disk is full. Make room, or let TMPDIR name a folder on another disk.",
    )


def test_a_port_in_use_is_told_as_such():
    with socket.create_server(("127.0.0.1", 0)) as first, pytest.raises(OSError) as caught:  # noqa: PT011
        socket.create_server(first.getsockname())
    code, message, hint = words(caught.value)
    assert (code, hint) == (
        "CALVE-910",
        "Another program listens there. Stop it, or name another port.",
    )
    assert message.startswith("address already in use")


def test_a_defect_is_told_in_one_line_with_what_to_do():
    assert words(ValueError("first line\nsecond line")) == (
        "CALVE-990",
        "ValueError: first line",
        "`calve --debug …` shows where it happened; please report it.",
    )
    assert words(AssertionError())[1] == "AssertionError"
    assert len(words(ValueError("x" * 10_000))[1]) < 400


@pytest.mark.parametrize(
    "package, extra", [("pyspark", "spark"), ("boto3", "aws"), ("psycopg", "postgres"), ("thrift", "hive")]
)
def test_a_package_that_is_missing_is_told_with_its_extra(package, extra):
    error = ModuleNotFoundError(f"No module named '{package}.x'", name=f"{package}.x")
    assert words(error) == (
        "CALVE-901",
        f"the command needs {package}, which is not installed",
        f"pip install 'calve[{extra}]'.",
    )


def test_a_module_that_nobody_foresaw_is_a_defect():
    assert words(ModuleNotFoundError("No module named 'x'", name="x"))[0] == "CALVE-990"


@pytest.mark.parametrize(
    "error, code, message",
    [
        (KeyboardInterrupt(), "CALVE-920", "stopped by Ctrl-C"),
        (typer.Abort(), "CALVE-920", "stopped by Ctrl-C"),
        (Terminated(), "CALVE-921", "stopped by SIGTERM"),
        (MemoryError(), "CALVE-910", "the memory is used up"),
    ],
)
def test_ends_have_codes_too(error, code, message):
    assert words(error)[:2] == (code, message)
