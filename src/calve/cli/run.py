"""`calve run`: the sinks of a pipeline at work.

    until Ctrl-C · until a time · once ──▶ queries are stopped in order ──▶ what was done, and the exit code

A time that cannot be one is refused before anything starts, as soon as it is known what the times of a sink
are: by its table, or by its source. What was begun when somebody says stop is done again by the next start,
once.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calve.cli import signals
from calve.cli.console import AsJson, note, show, show_json
from calve.cli.pipeline import (
    FILE,
    Conf,
    File,
    Jars,
    Master,
    Packages,
    Sinks,
    job,
    read_file,
    settings_of,
    sinks_to_run,
)
from calve.cli.signals import Terminated
from calve.cli.watching import show_ran, watching
from calve.model.errors import BadTime, CalveError
from calve.model.meaning import Meaning, check_said

if TYPE_CHECKING:
    from calve.runtime.spark.job.job import Job, Prepared
    from calve.runtime.spark.job.run import Ran
    from calve.runtime.spark.progress import SinkProgress
    from calve.sql.defined import Definitions

Until = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Write what the source has up to this time of its own, nothing later, and end."
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Write what is there now, and end.")]


def run(
    file: File = Path(FILE),
    once: Once = False,
    until: Until = None,
    sinks: Sinks = None,
    as_json: AsJson = False,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    jars: Jars = None,
) -> None:
    """Run the sinks of a pipeline, until Ctrl-C. What was begun is done once, however often it is started."""
    from calve.runtime.pipelines import check_understood

    definitions = read_file(file, understood=True)
    names = sinks_to_run(definitions, sinks, file)
    check_understood(definitions, names)
    if until is not None:
        check_said(until)
        names = [name for name in names if not _is_past(definitions, name, until)]
        if not names:
            _say([], as_json)
            return
    with job(definitions, settings_of(master, conf, packages, jars)) as ready:
        prepared = prepare_all(ready, names, until)
        for one in prepared:
            for words in one.asked.notes:
                note(f"{one.asked.name}: {words}")
        if not once:
            end = f"{until} or Ctrl-C" if until else "Ctrl-C"
            note(f"{len(names)} {'sink runs' if len(names) == 1 else 'sinks run'} until {end}.")
        ran, stopped = run_all(prepared, once=once, until=until)
    _say(ran, as_json, stopped)
    if stopped is not None:
        raise typer.Exit(signals.exit_code(stopped))


def prepare_all(ready: Job, names: Sequence[str], until: str | None = None) -> list[Prepared]:
    """Sinks that can be started."""
    from calve.runtime.spark.apart import apart

    def prepare() -> list[Prepared]:
        prepared = [ready.prepare(name) for name in names]
        if until is not None:
            _check_until(prepared, until)
        return prepared

    return apart(prepare)


def run_all(
    prepared: Sequence[Prepared], *, once: bool, until: str | None = None
) -> tuple[list[Ran], signal.Signals | None]:
    """Run sinks, and show how far they are; what they did, and the signal that stopped them, if one did."""
    from calve.runtime.spark.job.run import Watch
    from calve.runtime.spark.job.run import run as run_sinks

    names = [one.asked.name for one in prepared]
    with watching(names) as tell:
        watch = Watch(reached=None if until is None else _past(until), tell=tell)
        try:
            return run_sinks(prepared, watch, once=once, until=until), None
        except Terminated:
            return list(watch.ran.values()), signal.SIGTERM
        except KeyboardInterrupt:
            return list(watch.ran.values()), signal.SIGINT


def _is_past(definitions: Definitions, sink: str, until: str) -> bool:
    """Whether all tables of a sink are past a time already: then nothing may come that would say so. A table
    is as far as its source was when no change waited, also where the last change is older."""
    from calve.runtime.inspect.door import status_of
    from calve.runtime.pipelines import addresses_of

    found = []
    for address in addresses_of(definitions, sink):
        try:
            status = status_of(address)
        except CalveError:
            return False  # it is not there yet; or the start says what is wrong with it
        one = next((one for one in status.sinks if one.sink_id == address.sink.sink_id), None)
        if one is None or one.frontier is None:
            return False
        with _of_sink(sink):
            closed = 0 if one.stashed is None or one.stashed.ready else one.stashed.closed
            found.append(max(one.frontier, closed) > one.meaning.parse(until))
    return bool(found) and all(found)


def _check_until(prepared: Sequence[Prepared], until: str) -> None:
    """Refuse a time that cannot be one of a sink's, where it is known what its times are."""
    for one in prepared:
        for table in one.tables():
            if table.source:
                with _of_sink(one.asked.name):
                    Meaning(table.source).parse(until)


@contextmanager
def _of_sink(name: str) -> Iterator[None]:
    try:
        yield
    except BadTime as error:
        raise BadTime(f"the sink {name!r}: {error.message}", hint=error.hint) from None


def _past(until: str) -> Callable[[SinkProgress], bool]:
    """Whether a sink is past a time of its source, or stands still because nothing before it waits."""

    def reached(progress: SinkProgress) -> bool:
        return progress.ended or (progress.frontier or 0) > Meaning(progress.source).parse(until)

    return reached


def _say(ran: list[Ran], as_json: bool, stopped: signal.Signals | None = None) -> None:
    if as_json:
        body: dict[str, object] = {"sinks": [one.to_json() for one in ran]}
        show_json(body if stopped is None else {**body, "stopped": signals.SAID[stopped]})
        return
    if ran:
        show_ran(ran)
    elif stopped is None:
        show("Every sink is past that time already. Nothing was done.")
    if stopped is not None:
        sys.stderr.write(f"{signals.line(stopped)}\n")
