"""The way in: signals first, then what takes long to import, then the command.

What the command line needs stands in the extra `cli`; without it, one line says so.
"""

from __future__ import annotations

import os
import sys

from calve.cli import signals

_EXTRA = ("click", "rich", "typer")


def main() -> None:
    """Run the command that the arguments name."""
    signals.at_once()
    try:
        from calve.cli.app import app
        from calve.cli.logs import tell_logs
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        sys.exit(f"calve: the command line needs {error.name}; install it with: pip install 'calve[cli]'")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a sign is no reason to fail
    tell_logs()
    signals.in_order()
    try:
        app()
    except SystemExit as end:
        if isinstance(end.code, int) and end.code in map(signals.exit_code, signals.SAID):
            # What was open is closed. Python would now wait for threads of libraries, and for their words.
            sys.stdout.flush()
            os._exit(end.code)
        raise


if __name__ == "__main__":
    main()
