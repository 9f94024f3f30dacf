"""Doctor: what a connection can do and what it lacks, tried for real, said in plain words.

    connect ─▶ list ─▶ namespace ─▶ table ─▶ store: write, read, delete ─▶ compare-and-swap ─▶ tags ─▶ clock
                                      └──────────────── all of it is removed again ◀────────────────────┘

Everything happens in a table of its own, in a scratch namespace or in the one that is named. A check that
fails says why and what to do next, and those that need it are passed over. What was made is removed again,
also after a failure; files that a catalog leaves behind lie below the scratch table's own folder.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError, RESTError
from pyiceberg.table import Table
from pyiceberg.table.update import AddSnapshotUpdate

from calve.config.catalog import CatalogConfig
from calve.config.sink import SinkConfig
from calve.model.errors import AccessDenied, CalveError, CatalogError, CatalogWithoutTags, StoreError
from calve.model.progress import Progress
from calve.protocol.retry import Answer
from calve.runtime.diagnosis import Diagnosis, Found, Outcome, skipped, tried
from calve.store import store_for
from calve.store.objects import ObjectStore
from calve.table.base import Base, read_base
from calve.table.build import Attempt, Builder
from calve.table.catalogs import open_catalog
from calve.table.commit import commits_many, load, reaching, send
from calve.table.create import Wanted, create_table
from calve.table.fence import Fence, MainFence, TagFence
from calve.table.fileio import access_of
from calve.table.plan import data_location

SKEW_SECONDS_MAX = 60
"""A clock that is further off is reported: AWS refuses signatures from 15 minutes on, and people read tables
as of a time."""
_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
_SINK = "calve-doctor"
_NEEDED = ("connect", "list", "namespace", "table", "store", "compare-and-swap")
"""Without these, what follows cannot be tried."""


def doctor(
    connection: CatalogConfig | SinkConfig | Mapping[str, object] | str, *, namespace: str | None = None
) -> Diagnosis:
    """Try all that a sink needs of a catalog and its store. `namespace` is one that is there already, for
    logins that may not create any. Nothing is raised for what is found: it stands in the diagnosis."""
    config = _catalog(connection)
    with _like_it(config) as tried_on:
        found = _Visit(tried_on, namespace).run()
    found.place = f"{config.type} catalog {config.uri or config.warehouse}"
    return found


@contextmanager
def _like_it(config: CatalogConfig) -> Iterator[CatalogConfig]:
    """The catalog; or, where an embedded one is not there yet, one like it in a scratch folder beside it. A
    diagnosis makes no catalog, and could not remove it: a sink may have begun to use it meanwhile."""
    file = _not_there_yet(config)
    if file is None:
        yield config
        return
    there = next(place for place in file.absolute().parents if place.is_dir())
    try:
        scratch = tempfile.mkdtemp(prefix=".calve-doctor-", dir=there)
    except OSError:
        yield config  # it cannot be made there either, and says why
        return
    try:
        yield config.replace(warehouse=scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _not_there_yet(config: CatalogConfig) -> Path | None:
    """The file of an embedded catalog that nobody has made."""
    if not config.is_embedded or config.uri is None:
        return None
    file = Path(config.uri.reveal().removeprefix("sqlite:///"))
    return None if file.exists() else file


def _catalog(connection: CatalogConfig | SinkConfig | Mapping[str, object] | str) -> CatalogConfig:
    if isinstance(connection, CatalogConfig):
        return connection
    if isinstance(connection, SinkConfig):
        return connection.catalog
    if isinstance(connection, str):
        return SinkConfig.from_url(connection).catalog
    return SinkConfig.from_options({"namespace": "ns", "table.name": "t", **connection}).catalog


class _Visit:
    """One diagnosis, and the scratch table that it is made with."""

    def __init__(self, config: CatalogConfig, namespace: str | None) -> None:
        self._config = config
        name = f"calve_doctor_{uuid.uuid4().hex[:12]}"
        self._namespace = tuple(namespace.split(".")) if namespace else (name,)
        self._makes_namespace = namespace is None
        self._identifier = (*self._namespace, name)
        self._made: list[Callable[[], None]] = []
        """How to undo what was made, the last first."""
        self._skews: dict[str, float] = {}
        self._opened: Catalog | None = None
        self._loaded: Table | None = None

    def run(self) -> Diagnosis:
        """All checks, in order; what was made is removed."""
        found = Diagnosis(self._config.name)
        lost = False
        for name, check in (
            ("connect", self._connect),
            ("list", self._list),
            ("namespace", self._make_namespace),
            ("table", self._make_table),
            ("store", self._use_store),
            ("compare-and-swap", self._swap),
            ("tags", self._keep_tags),
            ("clock", self._compare_clocks),
        ):
            one = skipped(name) if lost else tried(name, check)
            found.checks.append(one)
            lost = lost or (one.outcome is Outcome.FAILED and name in _NEEDED)
        found.checks.append(tried("clean up", self._clean_up))
        return found

    @property
    def _catalog(self) -> Catalog:
        assert self._opened is not None
        return self._opened

    @property
    def _table(self) -> Table:
        assert self._loaded is not None
        return self._loaded

    def _connect(self) -> Found:
        self._opened = open_catalog(self._config)
        self._made.append(self._opened.close)
        many = "one request can commit to several tables" if commits_many(self._opened) else ""
        return Found(f"the catalog answers{'; ' + many if many else ''}")

    def _list(self) -> Found:
        try:
            with reaching(self._namespace):
                return Found(f"{len(self._catalog.list_namespaces())} namespaces")
        except AccessDenied as error:  # a sink lists nothing
            return Found("the login may not list, and a sink needs not", hint=error.message)

    def _make_namespace(self) -> Found:
        shown = ".".join(self._namespace)
        with reaching(self._namespace):
            if not self._makes_namespace:
                if not self._catalog.namespace_exists(self._namespace):
                    raise CatalogError(f"there is no namespace {shown}", hint="Name one that is there.")
                return Found(f"{shown} is there")
            try:
                self._catalog.create_namespace(self._namespace)
            except ForbiddenError as error:
                raise AccessDenied(
                    f"the login may not create a namespace: {str(error)[:300]}",
                    hint="Name one that is there: namespace='sales', or calve doctor --namespace sales.",
                ) from error
        self._made.append(lambda: self._catalog.drop_namespace(self._namespace))
        return Found(f"{shown} was created")

    def _make_table(self) -> Found:
        before = time.time()
        self._made.append(self._drop_table)  # it may be there although its creation failed
        with reaching(self._identifier):
            table = create_table(self._catalog, self._identifier, Wanted(_SCHEMA, key=("id",)))
        self._loaded = table
        if not isinstance(self._catalog, MetastoreCatalog):  # there the time is ours
            self._skews["catalog"] = table.metadata.last_updated_ms / 1000 - (before + time.time()) / 2
        return Found(f"a table was created at {table.location()}")

    def _drop_table(self) -> None:
        try:
            self._catalog.purge_table(self._identifier)
        except NoSuchTableError:
            return
        except (NotImplementedError, RESTError, StoreError, AccessDenied):
            self._catalog.drop_table(self._identifier)  # a catalog that keeps the files drops the table

    def _use_store(self) -> Found:
        location = f"{data_location(self._table.metadata)}/calve-doctor-{uuid.uuid4()}"
        store, content = store_for(location, access_of(self._table.io)), uuid.uuid4().bytes
        before = time.time()
        with store.create(location) as file:
            file.write(content)
        with store.open(location) as file:
            if file.read() != content:
                raise StoreError(
                    f"{location} does not hold what was written", hint="The store must read its own writes."
                )
        if isinstance(store, ObjectStore):
            self._skews["store"] = store.modified(location) - (before + time.time()) / 2
        try:
            store.delete(location)
        except (StoreError, AccessDenied) as error:
            return Found("an object was written and read, and cannot be deleted", hint=error.message)
        return Found("an object was written, read and deleted")

    def _swap(self) -> Found:
        """Two claims on one base: one must win. On main, which every catalog has: whether it keeps tags is
        asked next."""
        base = read_base(self._table)
        first, second = (self._claim_attempt(base, MainFence(_SINK)) for _ in range(2))
        answers = [send(self._catalog, *attempt).answer for attempt in (first, second)]
        if answers != [Answer.LANDED, Answer.CONFLICT]:
            raise CatalogError(
                f"of two commits on one base, the answers were {answers[0].value} and {answers[1].value}",
                hint="A catalog must take the first and refuse the second, or runs overwrite one another. "
                "Use another catalog, or look at what stands between it and this machine.",
            )
        for update in second[1].updates:
            if isinstance(update, AddSnapshotUpdate):
                with suppress(StoreError, AccessDenied):  # nobody will ever name it, and it harms nobody
                    base.io.delete(update.snapshot.manifest_list)
        return Found("of two commits on one base, one was taken and one refused")

    def _claim_attempt(self, base: Base, fence: Fence) -> tuple[Base, Attempt]:
        writer, snapshot_id, now_ms = uuid.uuid4(), uuid.uuid4().int >> 66, time.time_ns() // 10**6
        progress = Progress(fence.sink_id, frontier=0, lower=0, generation=1, writer=writer, source="doctor")
        return base, Builder(fence).claim(base, progress, snapshot_id, now_ms, "true")

    def _keep_tags(self) -> Found:
        fence = TagFence(f"{_SINK}-tag")
        send(self._catalog, *self._claim_attempt(read_base(load(self._catalog, self._identifier)), fence))
        if fence.find(load(self._catalog, self._identifier)) is None:
            raise CatalogWithoutTags(
                "the catalog took a tag and does not keep it",
                hint="calve keeps a sink's progress in a tag. Use a catalog that stores Iceberg tags, or run "
                "sinks with fence = 'main'.",
            )
        return Found("tags are kept")

    def _compare_clocks(self) -> Found:
        if not self._skews:
            return Found("there is no clock but this machine's")
        words = ", ".join(f"{who} {skew:+.1f} s" for who, skew in self._skews.items())
        if max(map(abs, self._skews.values())) > SKEW_SECONDS_MAX:
            raise CatalogError(
                f"clocks are too far apart: {words} from this machine's",
                hint="Let this machine follow a time server: AWS refuses signatures that are 15 minutes off.",
            )
        return Found(f"{words} from this machine's")

    def _clean_up(self) -> Found:
        failed = [error for undo in self._made[::-1] if (error := self._undone(undo)) is not None]
        if failed:
            return Found(f"{'.'.join(self._identifier)} is left behind", hint=failed[0].message)
        return Found("nothing is left behind")

    def _undone(self, undo: Callable[[], None]) -> CalveError | None:
        try:
            with reaching(self._identifier):
                undo()
        except CalveError as error:
            return error
        return None
