"""Google Cloud Storage: `gs://bucket/key`.

The login is, in this order: a token that was given or vended; a service account's key; nothing at all; and
else Google's default credentials, which obstore finds and renews by itself.
"""

from __future__ import annotations

from typing import Any

from obstore.store import GCSStore

from calve.store.access import Access
from calve.store.client import client_options, given, retry_config
from calve.store.s3 import split as split
from calve.store.vended import Login, provider

hint = (
    "Is gcs.service.host right and up, and may the login write there? Nothing of this batch was committed; "
    "start again when the store answers."
)


def open_bucket(bucket: str, access: Access) -> Any:
    endpoint = access.endpoint("gcs.service.host", "gcs.endpoint")
    config = {
        "base_url": endpoint,
        "service_account_key": access.get("gcs.service-account-key"),
        "skip_signature": access.is_on("gcs.no-auth") or None,
    }
    token = access.get("gcs.oauth2.token")
    return GCSStore(
        bucket,
        config=given(config),
        client_options=client_options(access, endpoint),
        retry_config=retry_config(access),
        credential_provider=None if token is None else provider(f"gs://{bucket}/", access, _login),
    )


def _login(access: Access) -> Login:
    return Login({"token": access.get("gcs.oauth2.token")}, access.get("gcs.oauth2.token-expires-at"))
