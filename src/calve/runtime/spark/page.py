"""docs/spark-catalogs.md: where a catalog is found, and the list of properties that is read there.

`python -m calve.runtime.spark.page > docs/spark-catalogs.md` makes it; a test keeps it up to date.
"""

from __future__ import annotations

import sys

from calve.runtime.spark.translate import RULES, Act, Rule

_HEAD = """\
# Where a catalog is found

Made by `python -m calve.runtime.spark.page`; a test keeps it up to date.

In `.to_table("lake.sales.orders")` the first part names a catalog, the last one the table, and all between
them is the namespace. `lake` is found where you already have it. The first of these places that describes it
counts, alone:

1. The call: `.catalog("lake", type="sql", uri="postgresql://…", warehouse="/lake")`, or the options
   `catalog.type`, `catalog.uri`, … of [options.md](options.md). Further words are properties under
   PyIceberg's names. Without a type and a uri they are added to what the next places say.
2. PyIceberg's own configuration: `.pyiceberg.yaml` in `$PYICEBERG_HOME`, the home folder or the current one,
   and the environment's `PYICEBERG_CATALOG__LAKE__URI`, … Settings that are nested there (`auth`, `ssl`) are
   known with dots between their names.
3. The Spark session: `spark.sql.catalog.lake` and `spark.sql.catalog.lake.*`, as Iceberg's Spark runtime
   spells them. The runtime itself need not be there: calve reads the settings and opens the catalog by
   PyIceberg.
4. If no catalog is configured anywhere: SQLite in the folder `calve-warehouse`, under the name `lake`. A
   table that is named without a catalog (`sales.orders`) is in the catalog `calve`.

If catalogs are configured and `lake` is none of them, that is an error with the nearest right name: a
misspelt name never makes a new, empty lake.

What each type of catalog needs, and its logins: [catalogs.md](catalogs.md).

A catalog in a SQL database keeps its tables by the catalog's name. So `lake` must be called `lake` by
everybody who shares its database: by Spark, by PyIceberg and here.

## Iceberg's Spark properties as PyIceberg's

The names in the first column follow `spark.sql.catalog.<name>.`. A name that is not in the list goes to
PyIceberg as it is. A property that is *left out* only tunes Spark's side. One that is *refused* would change
which files are written, where, or who may read them, and PyIceberg cannot say it: take it out, or describe
the catalog in the call or for PyIceberg, both of which come first. No value is ever shown in a log or an
error.

| Spark | PyIceberg | |
|---|---|---|
"""


def catalogs_page() -> str:
    """The page."""
    return _HEAD + "".join(map(_row, RULES))


def _row(rule: Rule) -> str:
    named = ", ".join(f"`{name}`" for name in rule.pyiceberg.split(", ") if name)
    note = rule.note
    if rule.act in (Act.LEFT, Act.REFUSED):
        named = f"*{rule.act.value}*"
    if rule.unless:
        note += f"; fine is `{'`, `'.join(value.lstrip('.') for value in rule.unless)}`"
    return f"| `{rule.spark}` | {named or 'the table itself'} | {note} |\n"


if __name__ == "__main__":
    sys.stdout.write(catalogs_page())
