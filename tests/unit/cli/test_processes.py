"""A command as a process: signals at any moment, broken pipes, exit codes, and never a traceback."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_NOT_INHERITED = ("CALVE_DEBUG", "NO_COLOR", "PYTHONUNBUFFERED")
ENV = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
SITE = """
import os, sys, threading
{body}
sys.argv = ["calve", *sys.argv[1:]]
from calve.cli.main import main
main()
"""
READY = "os.write(1, b'ready\\n')"
WAITS = f"{READY}\n    threading.Event().wait()"


@contextmanager
def begun(code: str, *words: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A command whose process runs this first."""
    process = subprocess.Popen(
        [sys.executable, "-c", SITE.format(body=code), *words],
        env={**ENV, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def started(code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The same, when it has said that it is ready."""
    with begun(code, *words) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A pipeline that could run."""
    folder = tmp_path / "here"
    (folder / "orders").mkdir(parents=True)
    file = folder / "pipeline.sql"
    file.write_text(
        "CREATE CONNECTION lake TO ICEBERG CATALOG (WAREHOUSE = 'lake');\n"
        "CREATE SOURCE orders (id long) FROM FILES (PATH = 'orders') KEY (id);\n"
        "CREATE SINK s FROM orders INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't');\n",
        "utf-8",
    )
    return file


@pytest.fixture
def slow_java(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A Java that Spark never comes to start with: its home, and a pipe on which it says that it was called,
    and that ends with its last process."""
    home, said = tmp_path / "jdk", tmp_path / "said"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -version ]; then echo \'openjdk version "21"\' >&2; exit; fi\n'
        f"exec > {said}; echo called; exec sleep 600\n",
        "utf-8",
    )
    java.chmod(0o755)
    os.mkfifo(said)
    reader = os.open(said, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    yield home, reader
    os.close(reader)


def acts(body: str) -> str:
    """Code that gives calve a command `act`, which does this."""
    return (
        "from calve.cli.app import app\n"
        "from calve.cli.console import AsJson\n"
        "@app.command()\n"
        f"def act(as_json: AsJson = False):\n    {body}\n"
    )


ENDS = [
    (signal.SIGINT, 130, "calve: stopped by Ctrl-C\n"),
    (signal.SIGTERM, 143, "calve: stopped by SIGTERM\n"),
]


def of_commands(first: str, second: str) -> list[object]:
    """Each of two commands with a signal of its own by day, and with the other by night."""
    by_night = [(first, *ENDS[1]), (second, *ENDS[0])]
    return [
        (first, *ENDS[0]),
        (second, *ENDS[1]),
        *(pytest.param(*one, marks=pytest.mark.nightly) for one in by_night),
    ]


@pytest.mark.parametrize("number, code, line", ENDS)
def test_a_signal_ends_a_command_in_one_line(number, code, line):
    with started(acts(WAITS), "act") as process:
        process.send_signal(number)
        assert process.communicate(timeout=60) == ("", line)
        assert process.returncode == code


@pytest.mark.parametrize("number, code, line", ENDS)
def test_a_signal_while_modules_are_imported_ends_it_in_one_line(number, code, line):
    """The import of the app waits where a library would catch what the signal raises, and take it for
    something else."""
    hook = (
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name != 'calve.cli.app': return None\n"
        f"        {READY}\n"
        "        try:\n"
        "            threading.Event().wait()\n"
        "        except BaseException: raise ImportError(name)\n"
        "sys.meta_path.insert(0, Finder())"
    )
    with started(hook, "demo") as process:
        process.send_signal(number)
        assert process.communicate(timeout=60) == ("", line)
        assert process.returncode == code


def test_what_is_open_is_closed_on_the_way_out(tmp_path: Path):
    closed = tmp_path / "closed"
    body = f"try:\n        {READY}\n        threading.Event().wait()\n"
    body += f"    finally: open({str(closed)!r}, 'w').close()"
    for number, code, _ in ENDS:
        with started(acts(body), "act") as process:
            process.send_signal(number)
            process.communicate(timeout=60)
            assert process.returncode == code
        assert closed.exists()
        closed.unlink()


def test_a_second_ctrl_c_does_not_wait():
    """Whatever the command makes of the first one."""
    body = f"while True:\n        try: {READY}; threading.Event().wait()\n        except BaseException: pass"
    with started(acts(body), "act") as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "calve: stopped by Ctrl-C\n")
        assert process.returncode == 130


def test_a_thread_of_a_library_does_not_hold_the_end_up():
    body = "threading.Thread(target=threading.Event().wait).start(); "
    with started(acts(body + WAITS), "act") as process:
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "calve: stopped by Ctrl-C\n")


def test_a_signal_that_is_ignored_from_the_start_stays_ignored():
    """As nohup and a shell's background jobs have it."""
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    body = f"{READY}\n    sys.stdin.readline()\n    raise OSError(28, 'No space left on device')"
    process = subprocess.Popen(
        [sys.executable, "-c", SITE.format(body=ignore + acts(body)), "act"],
        env=ENV,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate("go on\n", timeout=60)
    assert said.startswith("error CALVE-910 (MachineFailed): no space left on device\n")
    assert process.returncode == 1


def calve(*words: str, code: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SITE.format(body=code), *words],
        env={**ENV, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_reader_that_goes_away_is_no_error():
    """`calve … | head -1`"""
    body = acts(
        "from calve.cli.console import show\n    for number in range(100_000): show(f'line {number}')"
    )
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", SITE.format(body=body), "act"],
        env=ENV,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert os.read(read, 7) == b"line 0\n"
    os.close(read)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 141


@pytest.mark.parametrize("end", ["", "; import typer; raise typer.Exit(1)"])
def test_a_reader_that_is_gone_before_the_first_line_is_no_error(end):
    """Nothing is written before Python ends, unless the ground does."""
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-c", SITE.format(body=acts("print(1)" + end)), "act"],
        env=ENV,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (process.returncode, process.stderr) == (141, "")


def test_a_connection_that_breaks_is_an_error():
    body = "import socket; a, b = socket.socketpair(); b.close(); a.send(b'x')"
    ended = calve("act", code=acts(body))
    assert ended.stderr.startswith("error CALVE-910 (MachineFailed): broken pipe\n")
    assert ended.returncode == 1


def test_a_terminal_that_lacks_a_sign_is_no_reason_to_fail():
    body = acts("from calve.cli.console import show\n    show('· ü'); raise OSError(28, 'ü')")
    ended = calve("act", code=body, PYTHONIOENCODING="ascii")
    assert ended.stdout == "\\xb7 \\xfc\n"
    assert ended.stderr.startswith("error CALVE-910 (MachineFailed): \\xfc\n")


def test_a_warning_of_ours_is_a_line_and_one_of_a_library_is_not():
    body = acts(
        "import logging\n"
        "    logging.getLogger('calve.feed').warning('topic %s is new', 'x')\n"
        "    logging.getLogger('urllib3').warning('again')\n"
        "    logging.exception('KeyboardInterrupt while sending command.')\n"
        "    raise KeyboardInterrupt"
    )
    ended = calve("act", code=body)
    assert ended.stderr == "warning: topic x is new\ncalve: stopped by Ctrl-C\n"
    assert "warning: again\n" in calve("act", "--debug", code=body).stderr


def test_a_defect_in_a_process_has_no_traceback_unless_it_is_asked_for():
    code = acts("raise ZeroDivisionError('of a defect')")
    ended = calve("act", code=code)
    assert ended.stderr == (
        "error CALVE-990 (Defect): ZeroDivisionError: of a defect\n"
        "hint: `calve --debug …` shows where it happened; please report it.\n"
    )
    assert ended.returncode == 1
    shown = calve("act", "--json", code=code, CALVE_DEBUG="1")
    assert shown.stderr.startswith("Traceback")
    assert json.loads(shown.stdout)["error"]["code"] == "CALVE-990"


@pytest.mark.parametrize("command, number, code, line", of_commands("doctor", "demo"))
def test_a_signal_while_spark_starts_ends_all_of_it(command, number, code, line, slow_java, tmp_path):
    """Spark starts in a process of its own there; neither it, nor its Java, nor a folder is left."""
    home, said = slow_java
    temp = tmp_path / "temp"
    temp.mkdir()
    with begun("", command, JAVA_HOME=str(home), TMPDIR=str(temp)) as process:
        assert heard(said) == "called\n"
        process.send_signal(number)
        assert process.communicate(timeout=60) == ("", line)
        assert process.returncode == code
    assert heard(said) == ""
    assert list(temp.iterdir()) == []


@pytest.mark.parametrize("command, number, code, line", of_commands("plan", "run"))
def test_a_signal_while_spark_starts_for_a_pipeline_leaves_no_java(
    command, number, code, line, slow_java, pipeline
):
    home, said = slow_java
    with begun("", command, str(pipeline), JAVA_HOME=str(home)) as process:
        assert heard(said) == "called\n"
        process.send_signal(number)
        assert process.communicate(timeout=60) == ("", line)
        assert process.returncode == code
    assert heard(said) == ""


@pytest.mark.parametrize("command, home", [("plan", None), ("run", "/nowhere"), ("demo", None)])
def test_a_machine_without_java_is_told_so_before_anything_is_made(command, home, pipeline):
    words = [command] if command == "demo" else [command, str(pipeline)]
    env = {
        "PATH": str(pipeline.parent),
        "TMPDIR": str(pipeline.parent),
        **({"JAVA_HOME": home} if home else {}),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "calve.cli.main", *words],
        env={**{name: value for name, value in ENV.items() if name != "JAVA_HOME"}, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    where = f" in JAVA_HOME, {home}" if home else ""
    assert ended.stderr == (
        f"error CALVE-100 (ConfigError): Spark runs on Java, and there is none{where}\n"
        "hint: Install Java 17 or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless), or set "
        "JAVA_HOME to it.\n"
    )
    assert (ended.stdout, ended.returncode) == ("", 1)
    assert sorted(pipeline.parent.iterdir()) == [pipeline.parent / "orders", pipeline]


@pytest.mark.parametrize("number, code, line", ENDS)
def test_a_signal_while_a_command_starts_spark_by_itself_ends_it_in_one_line(number, code, line, slow_java):
    home, said = slow_java
    body = "from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate()"
    with begun(acts(body), "act", JAVA_HOME=str(home)) as process:
        assert heard(said) == "called\n"
        process.send_signal(number)
        assert process.wait(60) == code
        assert process.stderr is not None
        assert process.stderr.readline() == line
        os.killpg(process.pid, signal.SIGKILL)  # a real JVM ends when its standard input does


def heard(pipe: int) -> str:
    """A line, or nothing when nobody is left who could say one. Before the first one comes nobody is there,
    which looks the same: it is waited for."""
    ready = select.poll()
    ready.register(pipe, select.POLLIN | select.POLLHUP)
    ready.poll(60_000)
    return os.read(pipe, 100).decode()


@pytest.mark.spark
@pytest.mark.parametrize("number, code, line", [ENDS[0], pytest.param(*ENDS[1], marks=pytest.mark.nightly)])
def test_a_signal_while_spark_is_at_work_ends_it_in_one_line(number, code, line):
    """As commands call Spark: on a thread of its own, so that the signal meets no call into the JVM."""
    body = (
        "from calve.runtime.spark.apart import apart\n"
        "    from calve.runtime.spark.launch import session\n"
        "    with session({'spark.master': 'local[1]'}) as spark:\n"
        "        jobs = spark.sparkContext.statusTracker()\n"
        "        def tell():\n"
        "            while not jobs.getActiveJobsIds(): pass\n"
        f"            {READY}\n"
        "        threading.Thread(target=tell, daemon=True).start()\n"
        "        sleeps = \"java_method('java.lang.Thread', 'sleep', 600000L)\"\n"
        "        apart(spark.range(1).selectExpr(sleeps).collect)"
    )
    with started(acts(body), "act") as process:
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == code
        assert said.endswith(line)
        assert "Traceback" not in said
