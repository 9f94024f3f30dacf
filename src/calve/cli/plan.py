"""`calve plan`: what a pipeline would do to its tables, before it does anything."""

from __future__ import annotations

from pathlib import Path

import typer

from calve.cli.console import AsJson, show_json
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
from calve.cli.planned import plan_of, show_plan, show_summary, worst


def plan(
    file: File = Path(FILE),
    sinks: Sinks = None,
    as_json: AsJson = False,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    jars: Jars = None,
) -> None:
    """Show what a pipeline would do to its tables. Changes nothing.

    Exit code: 0 nothing to do, 2 there are changes, 1 something is refused.
    """
    definitions = read_file(file, understood=True)
    names = sinks_to_run(definitions, sinks, file)
    with job(definitions, settings_of(master, conf, packages, jars)) as ready:
        plans = [plan_of(ready, name) for name in names]
    code = worst(plans)
    if as_json:
        show_json({"file": str(file), "code": code, "sinks": [one.to_json() for one in plans]})
    else:
        for one in plans:
            show_plan(one)
        show_summary(plans)
    raise typer.Exit(code)
