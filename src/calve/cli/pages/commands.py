"""docs/cli.md, made from the commands themselves: a new one stands on the page by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from calve.cli.app import app
from calve.cli.ground import EXIT_CODES

_HEAD = """\
# The command line

Made by `python -m calve.cli.pages cli`; a test keeps it up to date. `pip install 'calve[cli]'` brings it;
what runs on Spark needs `calve[spark]` and Java, too. `calve doctor` says whether all of it is there.

## What all commands share

Results go to stdout; notes, warnings, progress and errors go to stderr. Progress shows on a terminal alone.

- **`--json`**: every command has it. stdout is one JSON object and nothing else. An error is
  `{"error": {"code", "name", "message", "hint"}}`.
- **`--quiet`**: no notes, no progress, no warnings.
- **`--no-color`**: no colour; the environment variable NO_COLOR does the same. Where stdout is no terminal,
  there is none anyway.
- **`--debug`**: shows where an error happened, and what libraries warn of; CALVE_DEBUG=1 does the same. No
  secret of a connection shows in it.

The last three may stand before the command or behind it.

An error says its code, what is known, and what to do; [errors.md](errors.md) lists all codes:

```text
error CALVE-101 (UnknownOption): there is no option 'warehous'
hint: Did you mean 'warehouse'?
```

Ctrl-C and SIGTERM end a command at any moment: what is open is closed, and one line says so. A second one
does not wait for that. What was committed stands, and a stream goes on from there.

## Exit codes

| code | meaning |
|---|---|
"""


def commands_page() -> str:
    """docs/cli.md."""
    codes = "".join(_code(code, meaning) for code, meaning in EXIT_CODES.items())
    root = get_command(app)
    context = typer.Context(root, info_name="calve")
    return f"{_HEAD}{codes}" + "".join(_sections(root, context))


def _code(code: int, meaning: str) -> str:
    return f"| {code} | {meaning.replace('|', chr(92) + '|')} |\n"


def _sections(command: Any, context: Any) -> Iterator[str]:
    """Every command below this one, in the order of the help."""
    for name, below in getattr(command, "commands", {}).items():
        if below.hidden:
            continue
        inner = typer.Context(below, parent=context, info_name=name)
        if getattr(below, "commands", None):
            yield from _sections(below, inner)
        else:
            yield _section(below, inner)


def _section(command: Any, context: Any) -> str:
    pieces = (piece.strip("{}") for piece in command.collect_usage_pieces(context))
    usage = " ".join([context.command_path, *pieces])
    rows = "".join(_row(one, context) for one in command.params if not getattr(one, "hidden", False))
    table = f"\n|  | takes | default | meaning |\n|---|---|---|---|\n{rows}" if rows else ""
    words = " ".join((command.help or "").split())
    return f"\n## {context.command_path}\n\n{words}\n\n```text\n{usage}\n```\n{table}"


def _row(one: Any, context: Any) -> str:
    is_argument = one.param_type_name == "argument"
    names = one.metavar or one.name if is_argument else " / ".join([*one.opts, *one.secondary_opts])
    needed = "Needed. " if is_argument and one.required else ""
    cells = (f"`{names}`", _takes(one, context), _default(one), f"{needed}{one.help or ''}")
    return "| " + " | ".join(cells) + " |\n"


def _takes(one: Any, context: Any) -> str:
    kind = one.type_descriptor
    if kind.annotation is bool:
        return ""
    if kind.is_ranged:
        least, most = kind.parameter_info.min, kind.parameter_info.max
        return f"{least:,} to {most:,}" if most is not None else f"{least:,} or more"
    return one.display_type(context).strip("<>").replace("|", " / ").replace("str", "text")


def _default(one: Any) -> str:
    value = one.default
    if isinstance(value, bool):
        value = one.opts[0] if value and one.secondary_opts else None
    return "" if value is None or one.required else f"`{getattr(value, 'value', value)}`"
