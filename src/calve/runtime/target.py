"""The target: the table of one sink, from its catalog to the run's hold on it.

    open ──there──▶ checked, claimed ──▶ coordinator
      └──not there──▶ make, with the first rows ──▶ checked, created, claimed ──▶ coordinator

Guarantee: what cannot be is refused before anything is created, and a catalog of our own is given back
whatever is raised.
"""

from __future__ import annotations

import logging

import pyarrow as pa
from pyiceberg.catalog import Catalog

from calve.config.sink import SinkConfig
from calve.model.errors import Diverged, TableMissing
from calve.runtime.clock import Clock
from calve.runtime.coordinator import Coordinator
from calve.runtime.epoch import Epoch
from calve.runtime.first import check_first, check_found, wanted_table
from calve.runtime.order import frontier_of
from calve.runtime.start import claim_table
from calve.table.catalogs import open_catalog
from calve.table.commit import load, reaching
from calve.table.create import check_places, create_table

_log = logging.getLogger("calve.sink")


class Target:
    """The table that a sink writes to, which may not be there yet."""

    def __init__(self, config: SinkConfig, clock: Clock, catalog: Catalog | None) -> None:
        self._config = config
        self._clock = clock
        self._is_ours = catalog is None
        self.catalog = catalog
        self.coordinator: Coordinator | None = None
        """The run's hold on the table; `None` before there is a table."""

    @property
    def frontier(self) -> int:
        """The first epoch that is not in the table."""
        return 0 if self.coordinator is None else frontier_of(self._config, self.coordinator.progress)

    @property
    def lower(self) -> int:
        """Where the next batch begins."""
        return 0 if self.coordinator is None else self.coordinator.progress.frontier

    def open(self) -> None:
        """Connect; and claim the table, if it is there and is what was asked for."""
        check_places(wanted_table(self._config, pa.schema([])))
        if self.catalog is None:
            self.catalog = open_catalog(self._config.catalog)
        try:
            self._find(self.catalog)
        except BaseException:
            self.close()
            raise

    def _find(self, catalog: Catalog) -> None:
        try:
            table = load(catalog, self._config.identifier)
        except TableMissing:
            _log.info("%s is not there yet; it is created with the first rows", self._config.table_name)
            return
        check_found(self._config, table)
        self.coordinator = claim_table(self._config, catalog, self._clock)

    def make(self, epoch: Epoch, rows: pa.RecordBatch | pa.Table) -> Coordinator | None:
        """Make the table that the first rows ask for, and claim it. Deletes alone ask for none: there is
        nothing that they could delete, and they need not show all columns."""
        assert self.catalog is not None
        arrival = epoch.arrive(rows)
        if arrival.deletes_only:
            epoch.wait(arrival)
            return None
        wanted = check_first(self._config, arrival, epoch.waiting)
        with reaching(self._config.identifier):
            create_table(self.catalog, self._config.identifier, wanted)
        self.coordinator = coordinator = claim_table(self._config, self.catalog, self._clock)
        if coordinator.progress.frontier > epoch.batch.lower:
            raise Diverged(
                f"{self._config.table_name} was created by another run, which has committed up to "
                f"{coordinator.progress.frontier}",
                hint="Start this sink again: it goes on from what the table says.",
            )
        return coordinator

    def close(self) -> None:
        """Give back the connections of a catalog of our own. One that was handed in stays open."""
        if self._is_ours and self.catalog is not None:
            self.catalog.close()
            self.catalog = None
