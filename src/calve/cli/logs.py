"""Logs: what calve warns of while a command runs, a line each, on stderr.

    calve.*          ──warnings──▶ `warning: …`; with --quiet errors alone
    calve.progress   ──▶ nothing: a command shows progress, and why a stream stopped, by itself
    libraries        ──▶ nothing: what matters of it is in an error of ours

With `--debug` all of it shows, with the way there. No secret of a configuration that is in use is in a
line (P10). Without a handler Python would print all warnings, and Py4J a traceback at every Ctrl-C.
"""

from __future__ import annotations

import logging
import sys

from calve.cli.console import manner
from calve.config.secret import live_secrets, redact

_OURS, _SHOWN_BY_COMMANDS = "calve.", "calve.progress"


class _Lines(logging.Handler):
    def filter(self, record: logging.LogRecord) -> bool:
        asked = manner()
        if asked.debug:
            return True
        level = logging.ERROR if asked.quiet else logging.WARNING
        ours = record.name.startswith(_OURS) and record.name != _SHOWN_BY_COMMANDS
        return ours and record.levelno >= level

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.levelname.lower()}: {record.getMessage()}"
        if record.exc_info and manner().debug:
            text += f"\n{logging.Formatter().formatException(record.exc_info)}"
        sys.stderr.write(redact(f"{text}\n", live_secrets()))


def tell_logs() -> None:
    """From now on warnings are lines on stderr. For a process that is a command, not for a library."""
    logging.getLogger().addHandler(_Lines(logging.WARNING))
