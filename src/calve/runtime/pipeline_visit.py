"""A visit to a pipeline: whether what its statements name is there, before anything is started.

    secrets ─▶ can be read          sources ─▶ the folder is there, the bucket can be listed, a server answers
    sinks ─▶ are understood ─▶ their catalogs, each once, for the doctor

No Spark: what only Spark can say (views, connectors) is told by a plan. Nothing is raised for what is found.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from calve.config.catalog import CatalogConfig
from calve.model.errors import BrokerError, CalveError, ConfigError, StoreError
from calve.runtime.diagnosis import Check, Diagnosis, Found, tried
from calve.runtime.machine import kafka_packages
from calve.runtime.pipelines import addresses_of
from calve.sql.defined import Definitions
from calve.sql.secrets import read_secret
from calve.sql.source import FeedFiles, Lines, Messages, Rows, Source, Subscribed, source_of
from calve.sql.tree import CreateSecret, CreateSource, Kept
from calve.store import Access
from calve.store.listing import list_after

CONNECT_SECONDS = 3.0
_FILES_COUNTED_MAX = 1000
_PORTS = {"kafka": 9092, "postgresql": 5432, "postgres": 5432}


def visit(definitions: Definitions, sinks: Sequence[str], kafka: str | None) -> Diagnosis:
    """Look at all that a pipeline names. `kafka`: the release of a Spark that lacks the connector for Kafka;
    `None`: it has it, or nobody asked."""
    found = Diagnosis("the pipeline")
    for secret in definitions.secrets.values():
        found.checks.append(tried(f"secret {secret.name}", partial(_secret, secret, definitions.folder)))
    for source in definitions.sources.values():
        found.checks.append(tried(f"source {source.name}", partial(_source, source, definitions, kafka)))
    found.checks += [_sink(definitions, name) for name in sinks]
    return found


def catalogs_of(definitions: Definitions, sinks: Sequence[str]) -> list[CatalogConfig]:
    """The catalogs of sinks, each once. Of a sink that is not understood nobody knows: the visit tells."""
    found: list[CatalogConfig] = []
    for name in sinks:
        try:
            addresses = list(addresses_of(definitions, name))
        except CalveError:
            continue
        found += [one.catalog for one in addresses if one.catalog not in found]
    return list(dict.fromkeys(found))


def _secret(secret: CreateSecret, folder: Path) -> Found:
    read_secret(secret, folder)
    kept = "the variable" if secret.kept is Kept.ENV else "the file"
    return Found(f"{kept} {secret.place} has it")


def _sink(definitions: Definitions, name: str) -> Check:
    def look() -> Found:
        return Found("writes " + ", ".join(one.name for one in addresses_of(definitions, name)))

    return tried(f"sink {name}", look)


def _source(statement: CreateSource, definitions: Definitions, kafka: str | None) -> Found:
    source = source_of(statement, definitions)
    match source:
        case FeedFiles():
            return _listed(source.url, Access.of(dict(source.storage)))
        case Lines():
            return _folder(source.path)
        case Subscribed():
            return _materialize(source)
        case Rows() if source.format != "kafka":
            return _folder(source.place)
    return _broker(source, kafka)


def _listed(url: str, access: Access) -> Found:
    """The files of a changefeed: calve lists them itself."""
    if "://" not in url or url.startswith("file:"):
        return _folder(url)
    count = sum(1 for _ in islice(list_after(url, "", access), _FILES_COUNTED_MAX))
    return Found(f"{url} can be listed: {_files(count)}")


def _folder(path: str) -> Found:
    scheme = urlsplit(path).scheme
    if scheme not in ("", "file"):
        return Found(f"{path} is read by Spark, with its own access to {scheme}:// places; not tried here")
    folder = Path(urlsplit(path).path if scheme else path)
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}", hint="Create it; files may come later.")
    count = sum(1 for _ in islice((one for one in folder.rglob("*") if one.is_file()), _FILES_COUNTED_MAX))
    return Found(f"{folder} has {_files(count)}")


def _files(count: int) -> str:
    if not count:
        return "no file yet"
    more = " or more" if count == _FILES_COUNTED_MAX else ""
    return f"{count:,}{more} {'file' if count == 1 else 'files'}"


def _broker(source: Source, kafka: str | None) -> Found:
    assert isinstance(source, Messages | Rows)
    servers = [one.strip() for one in source.options["kafka.bootstrap.servers"].split(",")]
    answer = next(filter(_answers, servers), None)
    if answer is None:
        raise BrokerError(
            f"no broker answers at {', '.join(servers)}",
            hint="Is it up, and does it listen there? The port of a broker is 9092 as a rule.",
        )
    if kafka is not None:
        return Found(
            f"a broker answers at {answer}; the session of Spark has no connector for Kafka",
            hint=f"Give it to plan and run: --packages {kafka_packages(kafka)}",  # no full stop: it is copied
        )
    return Found(f"a broker answers at {answer}")


def _materialize(source: Subscribed) -> Found:
    parts = urlsplit(source.uri)
    place = f"{parts.hostname or 'localhost'}:{parts.port or _PORTS['postgresql']}"
    if not _answers(place):
        raise StoreError(
            f"no server answers at {place}",
            hint="Is Materialize up, and is the port right? It is 6875 as a rule.",
        )
    return Found(f"a server answers at {place}")


def _answers(place: str) -> bool:
    """Whether somebody listens at a host and a port."""
    host, _, port = place.rpartition(":")
    try:
        number = int(port) if host else _PORTS["kafka"]
        with socket.create_connection((host or place, number), timeout=CONNECT_SECONDS):
            return True
    except (OSError, ValueError):
        return False
