"""Stops: a query that is stopped in the middle of a micro-batch ends in silence.

    query.stop() ──interrupts──▶ a call into the JVM ──Py4JJavaError──▶ quiet ──Stopped──▶ Spark: "Stopped"

Spark tells a stop from a failure by a regular expression over all that Python says of the error, the stack of
the JVM included, and the expression calls itself for every character (`isInterruptionException` of Spark's
`StreamExecution`, in 4.0 to 4.3). The query would end all the same, after a StackOverflowError of a thousand
lines that has people look for what went wrong. So what is said of a stop is short here.

    a micro-batch raises Fenced ──▶ Spark: StreamingQueryException, a text ──failure_of──▶ Fenced

An error that ends a query goes through the JVM, and comes back as a text with two stacks. So it is kept here,
without what it hung on, until somebody asks what the query failed of. Spark's own are not: they say it
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any
from weakref import WeakValueDictionary

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

_FAILURES: dict[str, list[Exception]] = {}
_QUERIES: WeakValueDictionary[str, StreamingQuery] = WeakValueDictionary()
_INTERRUPTED = ("java.lang.InterruptedException", "java.nio.channels.ClosedByInterruptException")
"""What comes of nothing but an interrupted thread. A timeout may be an InterruptedIOException, too."""
_LOOKS_EACH_SECONDS = 1


class Stopped(RuntimeError):
    """The query was stopped. Never seen by a user: Spark knows it by its words."""

    def __init__(self) -> None:
        super().__init__(
            f"py4j.protocol.Py4JJavaError: An error occurred while calling Spark: {_INTERRUPTED[0]}"
        )


def quiet(
    process: Callable[[DataFrame, int], None], failed: Callable[[Exception], None] = lambda _: None
) -> Callable[[DataFrame, int], None]:
    """What is called for each micro-batch, so that it says little if it is interrupted, and tells why if it
    fails."""

    def called(frame: DataFrame, micro_batch: int) -> None:
        try:
            process(frame, micro_batch)
        except BaseException as error:
            if is_stop(error):
                raise Stopped from None
            if isinstance(error, Exception) and not isinstance(error, Py4JError | PySparkException | Stopped):
                # A copy: the error itself holds the frames that it went through, and with them the pipeline.
                failed(_copied(error))
            raise

    return called


def stand_still(session: SparkSession, query_id: str) -> None:
    """Wait until the query is stopped. It is the query's own thread that waits, in the JVM: there a stop
    reaches it, and it leaves by an error as from any other call. A stop that came before may have been
    swallowed by what went on then: so it is looked for now and then."""
    jvm: Any = session.sparkContext._jvm
    latch, unit = jvm.java.util.concurrent.CountDownLatch(1), jvm.java.util.concurrent.TimeUnit.SECONDS
    while (query := _QUERIES.get(query_id)) is None or query.isActive:
        getattr(latch, "await")(_LOOKS_EACH_SECONDS, unit)
    raise Stopped


def keep_failures(query: StreamingQuery, failures: list[Exception]) -> None:
    """Let a query be found by its id, and what it fails of."""
    _QUERIES[str(query.id)] = query
    _FAILURES[str(query.id)] = failures


def failure_of(error: BaseException) -> Exception | None:
    """The error that a query ended with, where Spark says that it ended and the error is none of Spark's."""
    if not isinstance(error, StreamingQueryException):
        return None
    try:
        query = (error.getMessageParameters() or {}).get("id", "")
    except Py4JError:
        return None  # the JVM is gone
    return next(iter(_FAILURES.get(query, ())[-1:]), None)


def _copied(error: Exception) -> Exception:
    try:
        return copy(error)
    except TypeError:  # it is not made of what it says
        return RuntimeError(f"{type(error).__name__}: {error}")


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
