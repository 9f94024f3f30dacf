"""Stops: a query that is stopped in the middle of a micro-batch ends in silence.

    query.stop() ──interrupts──▶ a call into the JVM ──Py4JJavaError──▶ quiet ──Stopped──▶ Spark: "Stopped"

Spark tells a stop from a failure by a regular expression over all that Python says of the error, the stack of
the JVM included, and the expression calls itself for every character (`isInterruptionException` of Spark's
`StreamExecution`, in 4.0 to 4.3). The query would end all the same, after a StackOverflowError of a thousand
lines that has people look for what went wrong. So what is said of a stop is short here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame

_INTERRUPTED = ("java.lang.InterruptedException", "java.nio.channels.ClosedByInterruptException")
"""What comes of nothing but an interrupted thread. A timeout may be an InterruptedIOException, too."""


class Stopped(RuntimeError):
    """The query was stopped. Never seen by a user: Spark knows it by its words."""

    def __init__(self) -> None:
        super().__init__(
            f"py4j.protocol.Py4JJavaError: An error occurred while calling Spark: {_INTERRUPTED[0]}"
        )


def quiet(process: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """What is called for each micro-batch, so that it says little if it is interrupted."""

    def called(frame: DataFrame, micro_batch: int) -> None:
        try:
            process(frame, micro_batch)
        except BaseException as error:
            if is_stop(error):
                raise Stopped from None
            raise

    return called


def is_stop(error: BaseException) -> bool:
    """Whether an error is nothing but a query that was stopped."""
    return any(_is_interrupted(one) for one in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_interrupted(error: BaseException) -> bool:
    if not isinstance(error, Py4JJavaError):
        return False
    try:
        java = error.java_exception
        while java is not None:
            if java.getClass().getName() in _INTERRUPTED:
                return True
            java = java.getCause()
    except Py4JError:
        pass  # the JVM is gone: then nobody reads what is said
    return False
