"""`calve sql`: a shell of statements, with history and completion."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from calve.cli.console import AsJson, show_json
from calve.cli.pipeline import Conf, Jars, Master, Packages, read_file, settings_of
from calve.model.errors import ConfigError


def sql(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A pipeline that is known from the start."),
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", "-c", help="Do these statements, and end.")
    ] = None,
    as_json: AsJson = False,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    jars: Jars = None,
) -> None:
    """A shell: define connections, sources and sinks, look at them, and try them out."""
    from calve.cli.shell import Shell
    from calve.sql.defined import Definitions

    definitions = Definitions(Path.cwd()) if file is None else read_file(file, understood=True)
    with ExitStack() as stack:
        shell = Shell(definitions, settings_of(master, conf, packages, jars), stack)
        if command is not None:
            said = shell.answers_to(command)
        elif not sys.stdin.isatty():
            said = shell.answers_to(sys.stdin.read())
        elif as_json:
            raise ConfigError("a person at a terminal reads no JSON", hint="Give statements by --command.")
        else:
            shell.talk()
            return
        if as_json:
            show_json({"answers": list(said)})
        else:
            for _ in said:
                pass
