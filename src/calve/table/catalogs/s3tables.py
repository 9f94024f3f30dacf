"""S3 Tables of AWS, by its Iceberg REST endpoint: the warehouse is a table bucket's ARN.

Requests are signed for the service `s3tables`, in the connection's region, or us-east-1 where none is said. A
bucket in another region than that is refused before anything is sent. The store forbids deletes, and removes
what no snapshot names by itself: it is never asked to delete.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog

from calve.config.catalog import CatalogConfig
from calve.model.errors import ConfigError
from calve.table.catalogs import rest
from calve.table.catalogs.properties import file_properties, missing_boto

DEFAULT_REGION = "us-east-1"
_REGIONS = ("client.region", "s3tables.region", "s3.region", "aws_region")


def open_catalog(config: CatalogConfig) -> Catalog:
    """A table bucket."""
    try:
        from calve.store.aws import Arn
    except ModuleNotFoundError as error:
        raise missing_boto(error) from None
    assert config.warehouse is not None, "its configuration needs one"
    bucket = Arn.parse(
        config.warehouse, service="s3tables", example="arn:aws:s3tables:us-east-1:111122223333:bucket/name"
    )
    if not (
        bucket.region
        and bucket.account
        and bucket.resource.removeprefix("bucket/") not in ("", bucket.resource)
    ):
        raise ConfigError(
            f"{config.warehouse!r} is not the ARN of a table bucket",
            hint="It reads arn:aws:s3tables:us-east-1:111122223333:bucket/name.",
        )
    properties = file_properties(config)
    region = next((properties[name] for name in _REGIONS if properties.get(name)), DEFAULT_REGION)
    if bucket.region != region:
        raise ConfigError(
            f"the table bucket {config.warehouse} is in {bucket.region}, and requests go to {region}",
            hint=f"Give client.region = {bucket.region}.",
        )
    properties.setdefault("uri", f"https://s3tables.{region}.amazonaws.com/iceberg")
    properties |= {
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": region,
        "s3.delete-enabled": "false",
    }
    properties.setdefault("client.region", region)
    properties.setdefault("s3.region", region)
    return rest.connect(config, properties)
