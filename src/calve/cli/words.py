"""What goes wrong, in words: a person at a terminal needs what is known and what to do, not the way there.

    whatever was raised ──told──▶ a CalveError, with its code ──▶ two lines on stderr, or one JSON object

Every end of a command but a good one has a code. What is not an error of ours gets one of those below, and
its first line: the rest is for `--debug`.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator

import typer

from calve.cli.signals import Terminated
from calve.model.error import CalveError, Effect
from calve.runtime.diagnosis import line_of

_USAGE: type[Exception] = typer.BadParameter.__mro__[2]
"""The root of what Typer says of a command line: click's, or that of the click that later releases of Typer
bring along."""
_EXTRAS = {
    "spark": ("pandas", "py4j", "pyspark"),
    "aws": ("boto3", "botocore"),
    "cli": ("prompt_toolkit",),
    "hive": ("hive_metastore", "thrift"),
    "postgres": ("psycopg",),
}
_HINTS = {
    errno.ENOSPC: "The disk is full. Make room, or let TMPDIR name a folder on another disk.",
    errno.EDQUOT: "The quota of the disk is used up. Make room, or let TMPDIR name a folder on another disk.",
    errno.EADDRINUSE: "Another program listens there. Stop it, or name another port.",
    errno.EACCES: "Run it as a user who may, or name another place.",
    errno.EPERM: "Run it as a user who may, or name another place.",
    errno.ENOENT: "Is the name right? It is taken from the folder that the command runs in.",
    errno.EROFS: "The disk cannot be written. Name another place.",
    errno.EMFILE: "Too many files are open. Raise the limit (ulimit -n).",
    errno.ECONNREFUSED: "Nobody listens there. Is the server up, and the port right?",
}
_DEBUG = "`calve --debug …` shows where it happened"


class BadUsage(CalveError):
    """A command line that cannot be read."""

    code = "CALVE-900"
    effect = Effect.NOTHING
    advice = "`calve COMMAND --help` shows what a command takes."


class PackageMissing(CalveError):
    """A package that the command needs is not installed."""

    code = "CALVE-901"
    effect = Effect.NOTHING
    advice = "Install the extra that the hint names."


class MachineFailed(CalveError):
    """The operating system refused: a full disk, a port in use, a file that may not be read."""

    code = "CALVE-910"
    effect = Effect.PERHAPS
    advice = "Do as the hint says, then start again: what is in a table already is not written twice."


class SparkFailed(CalveError):
    """Spark failed, or did not start."""

    code = "CALVE-911"
    effect = Effect.PERHAPS
    advice = "`calve doctor` looks at Java and Spark; `calve --debug …` shows all that Spark said."


class Interrupted(CalveError):
    """Ctrl-C, or a question that was not answered."""

    code = "CALVE-920"
    effect = Effect.PERHAPS
    advice = "Start again when you like: what is in a table already is not written twice."


class Ended(CalveError):
    """SIGTERM, as a service manager or Kubernetes sends it."""

    code = "CALVE-921"
    effect = Effect.PERHAPS
    advice = "Start again when you like: what is in a table already is not written twice."


class Defect(CalveError):
    """An error that calve has no words for."""

    code = "CALVE-990"
    effect = Effect.PERHAPS
    advice = "`calve --debug …` shows where it happened; please report it with what that prints."


def told(error: BaseException) -> CalveError:
    """What a person is told of an error."""
    for one in _causes(error):
        if isinstance(one, CalveError):
            return one
    if isinstance(error, _USAGE):
        return _usage(error)
    if isinstance(error, Terminated):
        return Ended("stopped by SIGTERM", hint=Ended.advice)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return Interrupted("stopped by Ctrl-C", hint=Interrupted.advice)
    if isinstance(error, ModuleNotFoundError):
        return _missing(error)
    if isinstance(error, OSError):
        return _machine(error)
    if isinstance(error, MemoryError):
        return MachineFailed("the memory is used up", hint="Give the process more, or the command less.")
    return _spark(error) or Defect(line_of(error), hint=f"{_DEBUG}; please report it.")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _usage(error: BaseException) -> BadUsage:
    said = str(getattr(error, "format_message", error.__str__)()).strip().removesuffix(".")
    context = getattr(error, "ctx", None)
    command = "calve" if context is None else context.command_path
    return BadUsage(said[:1].lower() + said[1:], hint=f"`{command} --help` shows what it takes.")


def _missing(error: ModuleNotFoundError) -> CalveError:
    name = (error.name or "").partition(".")[0]
    for extra, packages in _EXTRAS.items():
        if name in packages:
            return PackageMissing(
                f"the command needs {name}, which is not installed", hint=f"pip install 'calve[{extra}]'."
            )
    return Defect(line_of(error), hint=f"Is the installation whole? {_DEBUG}.")


def _machine(error: OSError) -> MachineFailed:
    reason = error.strerror or line_of(error)
    place = "" if error.filename is None else f": {error.filename}"
    hint = _HINTS.get(error.errno or 0, f"{_DEBUG}.")
    return MachineFailed(f"{reason[:1].lower()}{reason[1:]}{place}", hint=hint)


def _spark(error: BaseException) -> CalveError | None:
    """Only where Spark is loaded can an error be Spark's."""
    if "py4j.protocol" not in sys.modules or "pyspark.errors" not in sys.modules:
        return None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from calve.runtime.spark.stops import failure_of

    if not isinstance(error, PySparkException | Py4JError):
        return None
    try:
        words = line_of(error)
    except Py4JError:  # it asks the JVM for its words
        words = "its JVM is gone"
    failure = failure_of(error)
    if failure is not None:
        return told(failure)
    return SparkFailed(words, hint=f"`calve doctor` looks at Java and Spark; {_DEBUG}.")
