"""The list of options as a page of documentation."""

from __future__ import annotations

from calve.config.options.listing import NOT_YET, OPTIONS, Option
from calve.config.units import BOOL_TAKES, DURATION_TAKES, NUMBER_TAKES, SIZE_TAKES

_HEAD = """\
# Options of a sink

Made by `python -m calve.config.options`; a test keeps it up to date. `IcebergSink.from_options({...})`,
`calve.write_stream(…).option(name, value)` and `CREATE SINK TABLE … WITH (…)` take these names, `SinkConfig`
the names of the second column. An unknown option is refused, with the nearest right one.

| option | in Python | takes | default | meaning |
|---|---|---|---|---|
"""


def options_page() -> str:
    """docs/options.md."""
    rows = "".join(map(_row, OPTIONS))
    later = "".join(f"- `{name}`\n" for name in NOT_YET)
    return f"""{_HEAD}{rows}
- **size**: {SIZE_TAKES}.
- **duration**: {DURATION_TAKES}.
- **number**: {NUMBER_TAKES}.
- **true / false**: {BOOL_TAKES}, no other word.
- **list**: text with commas between the names (dots in a namespace), or a list; a column with a space or a
  comma in its name stands in "double quotes".

Values of `catalog.uri`, `catalog.prop.*` and `storage.*` never show in `repr`, logs, errors or dumps, except
those that are known to be harmless, such as a region. `warehouse`, `location` and `table.prop.*` are written
into the table's metadata, so a login in them is refused.

Not there yet, and refused when they are set:

{later}"""


def _row(option: Option) -> str:
    field = f"`{option.field}`" if option.field else ""
    default = f"`{option.default}`" if option.default else ""
    kind = option.kind.name.replace("|", "\\|")
    return f"| `{option.name}` | {field} | {kind} | {default} | {option.meaning} |\n"
