"""The runs of the demo, as their parent hears of them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from calve.cli.runs import MANIFESTS, POINTER, UNTOLD, DemoFailed, Moment, NotKilled, Run
from calve.runtime.spark.progress import SinkProgress

PROGRESS = SinkProgress("bank.accounts", "sink", micro_batch=1, batches_committed=1)
WAITS = "import sys; sys.stdin.read()"
STAYS = "import signal; signal.pause()"


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def run_that_said(processes, tmp_path):
    """A run whose driver is a process that waits for its end, or has come to it by itself."""

    def run(*messages: tuple[str, str], code: str = WAITS) -> Run:
        receive, send = multiprocessing.Pipe(duplex=False)
        for message in messages:
            send.send_bytes(json.dumps(message).encode())
        send.close()
        log = tmp_path / "run.log"
        log.write_text("one\nthe last words\n", "utf-8")
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True
        )
        processes.append(process)
        return Run(process, receive, log)

    return run


def told(micro_batch: int) -> tuple[str, str]:
    return "progress", replace(PROGRESS, micro_batch=micro_batch).to_json()


@pytest.mark.parametrize(
    "moment, file", [(MANIFESTS, "metadata/1-m0.avro"), (POINTER, "metadata/00004-x.metadata.json")]
)
def test_a_run_is_killed_at_its_moment_in_its_micro_batch_and_not_before(
    run_that_said, moment: Moment, file: str
) -> None:
    run = run_that_said(
        ("file", file), told(0), ("file", file), told(1), ("file", "metadata/snap-1.avro"), ("file", file)
    )
    heard = []
    run.watch = lambda progress: heard.append(progress.micro_batch)
    run.kill_at(moment, micro_batch=2)
    assert run.process.returncode == -signal.SIGKILL
    assert heard == [0, 1]
    assert (run.at_work_on(), run.file) == (2, file)


def test_a_run_is_killed_when_it_has_told_of_a_commit_and_of_nothing_less(run_that_said, monkeypatch) -> None:
    quiet = replace(PROGRESS, micro_batch=2, batches_committed=0).to_json()
    run = run_that_said(told(1), ("progress", quiet), ("file", "metadata/1-m0.avro"), told(3), told(4))
    heard_before: list[int] = []
    kill = run.kill

    def kill_noted() -> None:
        heard_before.extend(progress.micro_batch for progress in run.told)
        kill()

    monkeypatch.setattr(Run, "kill", lambda _: kill_noted())
    run.kill_at(UNTOLD, micro_batch=2)
    assert run.process.returncode == -signal.SIGKILL
    assert heard_before == [1, 2, 3]


def test_a_kill_ends_the_whole_process_group(tmp_path) -> None:
    """A driver's JVM is its child, and must not outlive it."""
    child = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {STAYS!r}])\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", child],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    receive, send = multiprocessing.Pipe(duplex=False)
    send.close()
    # It waits for the end of the driver's output, which comes when the last process that has it is gone.
    with Run(process, receive, tmp_path / "log"):
        pass
    assert process.returncode == -signal.SIGKILL
    assert process.stdout.closed


def test_a_run_that_ended_before_its_moment_is_not_called_killed(run_that_said) -> None:
    run = run_that_said(told(0), code="")
    run.process.wait()
    with pytest.raises(NotKilled):
        run.kill_at(MANIFESTS, micro_batch=2)


def test_a_run_that_fails_before_its_moment_is_not_called_killed(run_that_said) -> None:
    """It says no more before it has ended: to kill it then would hide how it did."""
    slow = "import sys; sys.stdin.readline(); raise SystemExit(1)"
    run = run_that_said(told(0), ("stopped", "no room"), code=slow)
    threading.Timer(0.2, run.process.stdin.close).start()
    with pytest.raises(DemoFailed, match="exit code 1, not -9: no room") as raised:
        run.kill_at(MANIFESTS, micro_batch=2)
    assert type(raised.value) is DemoFailed


def test_a_run_that_stands_still_is_given_up_and_its_last_words_are_told(run_that_said, monkeypatch) -> None:
    monkeypatch.setattr("calve.cli.runs._PATIENCE_SECONDS", 0.05)
    run = run_that_said(told(0))
    run.messages, silent = multiprocessing.Pipe(duplex=False)
    with pytest.raises(DemoFailed, match="said nothing for 0 s; the last was: one\nthe last words"):
        run.kill_at(MANIFESTS, micro_batch=1)
    silent.close()


def test_a_run_that_fails_is_heard_to_its_last_word(run_that_said) -> None:
    run = run_that_said(("stopped", "Fenced: by another"), code="raise SystemExit(1)")
    with pytest.raises(DemoFailed, match="Fenced: by another"):
        run.finish()


def test_a_run_that_fails_without_a_word_is_told_of_by_its_log(run_that_said) -> None:
    with pytest.raises(DemoFailed, match="the last words"):
        run_that_said(code="raise SystemExit(1)").finish()


def test_a_run_that_dies_in_the_middle_of_a_word_is_heard_to_be_gone(run_that_said, tmp_path) -> None:
    receive, send = multiprocessing.Pipe(duplex=False)
    send.send_bytes(json.dumps(told(7)).encode())
    os.write(send.fileno(), b"\x00\x00\x00\x10half")
    send.close()
    run = run_that_said()
    run.messages = receive
    assert run.hear() == "progress"
    assert run.at_work_on() == 8
    assert run.hear() is None


def test_a_run_tells_the_files_that_it_makes_in_its_table_and_no_other(tmp_path: Path) -> None:
    """In a process of its own: the hook that tells stays as long as the process."""
    code = """
import os, sys
from pathlib import Path
from calve.cli.driver import Teller

class Messages:
    def send_bytes(self, message):
        print(message.decode())

folder = Path(sys.argv[1])
(folder / "t" / "data").mkdir(parents=True)
Teller(Messages()).tell_files(folder / "t")
os.close(os.open(folder / "t" / "data" / "made", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
os.close(os.open(folder / "t" / "data" / "made", os.O_RDONLY))
os.close(os.open(folder / "other", os.O_WRONLY | os.O_CREAT))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.returncode) == ('["file", "data/made"]\n', 0), ran.stderr


def test_a_driver_ends_with_its_parent() -> None:
    """Its standard input ends, and its whole process group with it."""
    code = (
        "import subprocess, sys, threading\n"
        "from calve.cli.driver import end_with_parent\n"
        f"subprocess.Popen([sys.executable, '-c', {STAYS!r}])\n"
        "end_with_parent()\n"
        "print('ready', flush=True)\n"
        "threading.Event().wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdin is not None
        assert driver.stdout.readline() == b"ready\n"
        driver.stdin.close()
        assert driver.stdout.read() == b""  # it ends when the last process that holds it is gone
        assert driver.wait() == -signal.SIGKILL
