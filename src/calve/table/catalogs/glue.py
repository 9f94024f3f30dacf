"""The AWS Glue Data Catalog: PyIceberg's, with our clients, our patience and errors that are understood.

    get_*                 ──▶ a client that tries again    (throttling is Glue's daily bread)
    create_*, update_*, … ──▶ a client that sends once     (what may have happened is looked up, not repeated)

Glue compares and swaps by the version of the table that was read: of two that update one version, the second
gets a ConcurrentModificationException, which is a refusal.

Where it is: `catalog.uri` = arn:aws:glue:<region>:<account>:catalog, or `client.region` and `glue.id`.
Logins: `store.aws`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import boto3
from botocore.exceptions import ClientError
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.glue import GLUE_CATALOG_ENDPOINT, GLUE_ID, GLUE_REGION, GlueCatalog
from pyiceberg.exceptions import CommitStateUnknownException, ForbiddenError
from pyiceberg.io import AWS_REGION

from calve.config.catalog import CatalogConfig
from calve.config.secret import Secrets
from calve.config.units import nearest
from calve.model.errors import ConfigError
from calve.store import aws
from calve.table.catalogs import aws_errors
from calve.table.catalogs.calls import Metastore, translating
from calve.table.catalogs.properties import file_properties

_SERVICE: Final = "glue"
_READS_MAX: Final = 3
_EXAMPLE: Final = "arn:aws:glue:us-east-1:123456789012:catalog"


def open_catalog(config: CatalogConfig) -> Catalog:
    """Glue's catalog of an account and a region. One request tells that it is there and takes the login."""
    properties = file_properties(config)
    if config.uri is not None:
        own = {name: hidden.reveal() for name, hidden in config.properties.items()}
        properties |= located(config.uri.reveal(), own)
        properties.setdefault(AWS_REGION, properties[GLUE_REGION])  # the store's too, unless it is said
    session = aws.session(properties, service=_SERVICE)
    region = session.region_name or ""
    endpoint = properties.get(GLUE_CATALOG_ENDPOINT)
    place = f"Glue at {endpoint}" if endpoint else f"Glue in {region}" if region else "Glue"
    with aws_errors.opening(place, config.secrets, region_hint=_region_hint(session, region, endpoint)):
        client = partial(_client, session, properties)
        _look(client(attempts=1, request_s=aws.OPENING_S))
        return Glue(config.name, client(attempts=_READS_MAX), client(attempts=1), properties, config.secrets)


def located(uri: str, said: Mapping[str, str]) -> dict[str, str]:
    """The region and the catalog id that an ARN names; properties that say otherwise are refused."""
    arn = aws.Arn.parse(uri, service=_SERVICE, example=_EXAMPLE)
    catalog, _, inner = arn.resource.partition("/")
    if catalog != "catalog" or not arn.region or not arn.account:
        raise ConfigError(f"{uri!r} is not the ARN of a catalog", hint=f"It reads {_EXAMPLE}.")
    number = f"{arn.account}:{inner}" if inner else arn.account
    told = dict.fromkeys((GLUE_REGION, AWS_REGION, "aws_region"), arn.region) | {GLUE_ID: number}
    for name, value in told.items():
        if said.get(name, value) != value:
            raise ConfigError(
                f"the ARN of the catalog says {value}, and catalog.prop.{name} says {said[name]}",
                hint="Leave one of the two out. A bucket's own region is s3.region or a 'storage.…' option.",
            )
    return {GLUE_REGION: arn.region, GLUE_ID: number}


@translating
class Glue(Metastore, GlueCatalog):
    """PyIceberg's catalog over our clients."""

    foreign = aws_errors.AWS_ERRORS

    def __init__(
        self, name: str, reading: Any, sending: Any, properties: dict[str, str], secrets: Secrets
    ) -> None:
        super().__init__(name, client=_Clients(reading, sending), **properties)
        self._secrets = secrets

    def as_known(self, error: Exception) -> Exception:
        return aws_errors.as_known(error, self._secrets)

    def close(self) -> None:
        self.glue.close()


class _Clients:
    """Two clients as one: what only reads may be asked again, what changes something is sent once."""

    def __init__(self, reading: Any, sending: Any) -> None:
        self._reading = reading
        self._sending = sending

    def __getattr__(self, name: str) -> Any:
        only_reads = name.startswith("get_") or name in ("exceptions", "meta")
        return getattr(self._reading if only_reads else self._sending, name)

    def close(self) -> None:
        self._reading.close()
        self._sending.close()


def _client(
    session: boto3.Session, properties: dict[str, str], *, attempts: int, request_s: float = aws.REQUEST_S
) -> Any:
    client = session.client(
        _SERVICE,
        endpoint_url=properties.get(GLUE_CATALOG_ENDPOINT),
        config=aws.timeouts(properties, service=_SERVICE, attempts=attempts, request_s=request_s),
    )
    client.meta.events.register("after-call.glue", _check_body)
    if number := properties.get(GLUE_ID):
        client.meta.events.register("provide-client-params.glue", partial(_name_catalog, number))
    return client


def _name_catalog(number: str, params: dict[str, Any], **_: Any) -> None:
    params.setdefault("CatalogId", number)


def _check_body(http_response: Any, **_: Any) -> None:
    """Refuse a success whose body is none of Glue's: boto3 would take it for an empty answer (case 23)."""
    try:
        told = json.loads(http_response.content or b"{}")
    except ValueError:
        told = None
    if http_response.status_code < 300 and not isinstance(told, dict):
        raise CommitStateUnknownException("Glue answered with what is not JSON")


def _look(client: Any) -> None:
    """Ask for anything. To be denied it is enough: the login was taken, and a sink needs no such right."""
    try:
        client.get_databases(MaxResults=1)
    except ClientError as error:
        if aws_errors.kind_of(error) is not ForbiddenError:
            raise
    finally:
        client.close()


def _region_hint(session: boto3.Session, region: str, endpoint: str | None) -> str:
    if endpoint is not None:
        return "Is the server of glue.endpoint up, and are host and port right?"
    known = [
        name for partition in session.get_available_partitions() for name in _regions(session, partition)
    ]
    if region in known:
        return "Is there a way from here to AWS: a route, a proxy, a VPC endpoint?"
    near = nearest(region, known)
    asked = f"Did you mean '{near}'? " if near else ""
    return (
        f"boto3 knows no region '{region}'. {asked}Give the region as client.region or in the catalog's ARN."
    )


def _regions(session: boto3.Session, partition: str) -> list[str]:
    return list(session.get_available_regions(_SERVICE, partition_name=partition))
