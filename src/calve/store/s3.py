"""S3, and all that speaks its protocol: `s3://bucket/key`, also as s3a and s3n.

The login is, in this order: keys that were given or vended; a profile or a role to assume, through boto3;
nothing at all, for public buckets; and else what the machine has (environment, web identity, container,
instance), which obstore finds and renews by itself.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from obstore.store import S3Store

from calve.model.errors import ConfigError, StoreError
from calve.store.access import Access
from calve.store.chain import asks_for_chain, chain
from calve.store.client import client_options, given, retry_config
from calve.store.vended import Login, provider

hint = (
    "Is s3.endpoint right and up, and is the bucket in the region that s3.region (or client.region) names? "
    "Nothing of this batch was committed; start again when the store answers."
)

_ENCRYPTION = {"s3": "AES256", "kms": "aws:kms", "dsse-kms": "aws:kms:dsse", "custom": "sse-c"}
"""Iceberg's names for what S3 calls otherwise."""


def split(location: str) -> tuple[str, str]:
    parts = urlsplit(location, allow_fragments=False)
    bucket, key = parts.netloc, location.split("/", 3)[3] if location.count("/") > 2 else ""
    if not bucket:
        raise StoreError(f"{location!r} names no bucket", hint="Write s3://bucket/folder.")
    return bucket, key.strip("/")


def open_bucket(bucket: str, access: Access) -> Any:
    if access.get("s3.signer", "s3.signer.uri") is not None or access.is_on("s3.remote-signing-enabled"):
        raise ConfigError(
            "the catalog wants to sign requests to the store itself (s3.signer), which calve does not do",
            hint="Let the catalog vend credentials instead, or give s3.access-key-id and "
            "s3.secret-access-key.",
        )
    endpoint = access.get("s3.endpoint")
    config: dict[str, Any] = {
        "region": access.get("s3.region", "client.region"),
        "disable_bulk_delete": True,  # one object at a time, which every store knows
        **encryption(access),
    }
    path_style = access.get("s3.path-style-access")
    virtual = endpoint is None and "." not in bucket if path_style is None else path_style.lower() != "true"
    virtual = access.is_on("s3.force-virtual-addressing", default=virtual)
    config["virtual_hosted_style_request"] = virtual
    if endpoint is not None:
        config["endpoint"] = _with_bucket(endpoint, bucket) if virtual else endpoint.rstrip("/")
    if access.is_on("s3.anonymous"):
        config["skip_signature"] = True
    return S3Store(
        bucket,
        config=given(config),
        client_options=client_options(access, endpoint),
        retry_config=retry_config(access),
        credential_provider=_provider(f"s3://{bucket}/", access),
    )


def encryption(access: Access) -> dict[str, str]:
    """How the store encrypts what it is given, in obstore's words."""
    kind = access.get("s3.sse.type")
    if kind is None:
        plain = {
            "server_side_encryption": access.get("s3.server-side-encryption"),
            "sse_kms_key_id": access.get("s3.sse-kms-key-id"),
        }
        return {name: value for name, value in plain.items() if value is not None}
    if kind == "none":
        return {}
    if kind not in _ENCRYPTION:
        raise ConfigError(f"s3.sse.type is {kind!r}", hint=f"It is one of none, {', '.join(_ENCRYPTION)}.")
    found = {"server_side_encryption": _ENCRYPTION[kind]}
    key = access.get("s3.sse.key")
    if kind == "custom" and key is None:
        raise ConfigError("s3.sse.type is 'custom' without a key", hint="Give s3.sse.key, in base64.")
    if key is not None and kind != "s3":
        found["sse_customer_key_base64" if kind == "custom" else "sse_kms_key_id"] = key
    return found


def _provider(location: str, access: Access) -> Any:
    if access.is_on("s3.anonymous"):
        return None
    if access.get("s3.access-key-id", "client.access-key-id") is not None:
        _login(access)  # both halves are there
        return provider(location, access, _login)
    return chain(access) if asks_for_chain(access) else None


def _login(access: Access) -> Login:
    secret = access.get("s3.secret-access-key", "client.secret-access-key")
    if secret is None:
        raise ConfigError(
            "the store has an access key id and no secret access key", hint="Give s3.secret-access-key too."
        )
    credential = {
        "access_key_id": access.get("s3.access-key-id", "client.access-key-id"),
        "secret_access_key": secret,
        "token": access.get("s3.session-token", "client.session-token"),
    }
    return Login(credential, access.get("s3.session-token-expires-at-ms"))


def _with_bucket(endpoint: str, bucket: str) -> str:
    scheme, _, host = endpoint.rstrip("/").partition("://")
    return f"{scheme}://{host if host.startswith(bucket + '.') else f'{bucket}.{host}'}"
