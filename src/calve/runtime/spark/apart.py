"""Apart: a call into Spark on a thread of its own, so that a signal in the middle of it breaks nothing.

    main thread ──apart(call)──▶ a thread, with its own connection to the JVM ──▶ what the call answers
         └── waits; a signal raises here, and not in the middle of an answer

Python raises what a signal asks for wherever the main thread is. In the middle of a call into the JVM the
rest of the answer stays in the thread's connection, and is taken for that of the next call. So a session is
started apart; and what must still be done after a signal, such as to stop a query, is done apart too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def apart(call: Callable[[], T]) -> T:
    """Call it on a thread of its own, and wait for it. A signal leaves it to itself."""
    answers: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def act() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=copy_context().run, args=(act,), daemon=True).start()
    # Not Thread.join: interrupted, Python 3.11 takes the thread for ended (bpo-45274).
    done.wait()
    if errors:
        raise errors[0]
    return answers[0]
