"""The list of options as a page of documentation."""

from __future__ import annotations

from typing import cast

from annotated_types import Ge, Le
from pydantic import BaseModel

from calve.config.options.listing import NOT_YET, OPTIONS, Option
from calve.config.sink import SinkConfig
from calve.config.units import BOOL_TAKES, DURATION_TAKES, NUMBER_TAKES, SIZE_TAKES

_NO_LIMIT = 2**50
"""What is allowed beyond this is no limit that a person would meet."""
_HEAD = """\
# Options of a sink

Made by `python -m calve.config.options`; a test keeps it up to date. `IcebergSink.from_options({...})`,
`calve.write_stream(…).option(name, value)` and `CREATE SINK TABLE … WITH (…)` take these names, `SinkConfig`
the names of the second column, an `iceberg://` URL either ([catalogs.md](catalogs.md)). An unknown option is
refused, with the nearest right one.

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


def _limits(option: Option) -> str:
    """What a number of the option is at least and at most, as the models have it."""
    model: type[BaseModel] = SinkConfig
    *above, last = option.field.split(".")
    for name in above:
        model = model.model_fields[name].annotation  # type: ignore[assignment]
    metadata = model.model_fields[last].metadata if last in model.model_fields else []
    least = max((cast(int, one.ge) for one in metadata if isinstance(one, Ge)), default=0)
    most = min((cast(int, one.le) for one in metadata if isinstance(one, Le)), default=_NO_LIMIT)
    show = option.kind.show
    if most < _NO_LIMIT:
        return f", {show(least)} to {show(most)}"
    return f", at least {show(least)}" if least > 1 else ""


def _row(option: Option) -> str:
    field = f"`{option.field}`" if option.field else ""
    default = f"`{option.default}`" if option.default else ""
    kind = option.kind.name.replace("|", "\\|") + _limits(option)
    return f"| `{option.name}` | {field} | {kind} | {default} | {option.meaning} |\n"
