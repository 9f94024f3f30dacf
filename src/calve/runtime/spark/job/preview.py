"""The previews of a sink's tables."""

from __future__ import annotations

from collections.abc import Iterator

from calve.config.sink import Mode, SinkConfig
from calve.runtime.preview import preview
from calve.runtime.previewed import Preview
from calve.runtime.spark.job.job import Prepared
from calve.runtime.spark.planning import Planned
from calve.table.catalogs import is_there, open_catalog


def previews(prepared: Prepared) -> Iterator[Preview]:
    """What a sink would do to each of its tables."""
    for one in prepared.tables():
        sink = _asked(one, prepared)
        if not is_there(sink.catalog):
            # To open a catalog in a local folder makes it, and a preview makes nothing.
            yield preview(sink, one.columns, one.source, None)
            continue
        catalog = open_catalog(sink.catalog)
        try:
            yield preview(sink, one.columns, one.source, catalog)
        finally:
            catalog.close()


def _asked(one: Planned, prepared: Prepared) -> SinkConfig:
    """What is asked of a table, as far as it is known."""
    if one.config is not None:
        return one.config.sink
    said = prepared.asked
    mode = said.mode or str(Mode.UPSERT)
    key = said.key or prepared.source_key
    known = {"mode": mode, "key": key} if key else {}
    return SinkConfig(catalog=one.lake.catalog, namespace=one.lake.namespace, table=one.lake.table, **known)
