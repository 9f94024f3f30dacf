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
from calve.store.objects import parts_of
from calve.store.vended import Login, provider

hint = (
    "Is s3.endpoint right and up, is the bucket in the region that s3.region (or client.region) names, and "
    "is there a login: keys, a profile, the environment, or a role of this machine? "
    "Nothing of this batch was committed; start again when the store answers."
)

_PREFIXES = ("s3", "client")
_PARTS = ("access-key-id", "secret-access-key", "session-token")
_ENCRYPTION = {"s3": "AES256", "kms": "aws:kms", "dsse-kms": "aws:kms:dsse", "custom": "sse-c"}
"""Iceberg's names for what S3 calls otherwise."""


def split(location: str) -> tuple[str, str]:
    parts = urlsplit(location, allow_fragments=False)
    bucket, key = parts.netloc, location.split("/", 3)[3] if location.count("/") > 2 else ""
    if not bucket:
        raise StoreError(f"{location!r} names no bucket", hint="Write s3://bucket/folder.")
    return bucket, key


def open_bucket(bucket: str, access: Access) -> Any:
    if access.get("s3.signer", "s3.signer.uri") is not None or access.is_on("s3.remote-signing-enabled"):
        raise ConfigError(
            "the catalog wants to sign requests to the store itself (s3.signer), which calve does not do",
            hint="Let the catalog vend credentials instead, or give s3.access-key-id and "
            "s3.secret-access-key.",
        )
    endpoint = access.endpoint("s3.endpoint")
    parts_of(access)  # what cannot be followed is refused before the first file
    config: dict[str, Any] = {
        "region": access.get("s3.region", "client.region"),
        "disable_bulk_delete": True,  # one object at a time, which every store knows
        **encryption(access),
    }
    path_style = access.is_on("s3.path-style-access", default=endpoint is not None or "." in bucket)
    virtual = access.is_on("s3.force-virtual-addressing", default=not path_style)
    config["virtual_hosted_style_request"] = virtual
    if endpoint is not None:
        config["endpoint"] = _with_bucket(endpoint, bucket) if virtual else endpoint
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
    own, common = (any(access.get(f"{prefix}.{part}") for part in _PARTS) for prefix in _PREFIXES)
    if not own and asks_for_chain(access):
        return chain(access)  # a role may be assumed with keys of `client.`
    if own or common:
        _login(access)  # both halves are there
        return provider(location, access, _login)
    return None


def _login(access: Access) -> Login:
    # All three of one prefix: a token of one login is none for the key of another.
    prefix = next(one for one in _PREFIXES if any(access.get(f"{one}.{part}") for part in _PARTS))
    key, secret, token = (access.get(f"{prefix}.{part}") for part in _PARTS)
    if key is None or secret is None:
        missing = f"{prefix}.access-key-id" if key is None else f"{prefix}.secret-access-key"
        raise ConfigError(
            f"the store has a part of a login, and no {missing}", hint="Give both parts of the key."
        )
    credential = {"access_key_id": key, "secret_access_key": secret, "token": token}
    return Login(credential, access.get("s3.session-token-expires-at-ms"))


def _with_bucket(endpoint: str, bucket: str) -> str:
    scheme, _, host = endpoint.rstrip("/").partition("://")
    return f"{scheme}://{host if host.startswith(bucket + '.') else f'{bucket}.{host}'}"
