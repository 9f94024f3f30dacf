"""Reach: whether a store answers at all, asked once and without patience, before anything relies on it.

A look at an object that is not there tells a wrong host, a wrong port, a certificate that is not trusted and
a bucket in another region within seconds, where a write would be tried again for minutes. It does not tell
whether the login may write: who may write but not list is denied a look at what is not there.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
import uuid
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException

from calve.model.errors import AccessDenied, StoreError
from calve.store import check_location, store_for
from calve.store.access import Access

_QUICK = {"store.retries": "1", "s3.connect-timeout": "3", "s3.request-timeout": "3"}


def reach(location: str, access: Access) -> None:
    """Refuse a store that does not answer. A disk always does."""
    module = check_location(location)
    if module is None:
        return
    quick = replace(access, settings=tuple(sorted({**dict(access.settings), **_QUICK}.items())))
    place = f"{location.rstrip('/')}/calve-{uuid.uuid4()}"
    try:
        with suppress(AccessDenied):
            store_for(place, quick).exists(place)
    except StoreError:
        if module == "s3":
            _check_region(location, access)
        raise


def _check_region(location: str, access: Access) -> None:
    """AWS tells everybody where a bucket is: a request that went to another region is told so."""
    from calve.store.s3 import split

    bucket = split(location)[0]
    environment = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    asked = access.get("s3.region", "client.region") or environment or "us-east-1"
    endpoint = (access.get("s3.endpoint") or f"https://s3.{asked}.amazonaws.com").rstrip("/")
    request = urllib.request.Request(f"{endpoint}/{bucket}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=2) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as error:
        headers = error.headers
    except (OSError, HTTPException):
        return
    region = headers.get("x-amz-bucket-region")
    if region and region != asked:
        raise StoreError(
            f"the bucket {bucket} is in the region {region}, and requests go to {asked}",
            hint=f"Give the storage property s3.region = {region}.",
        ) from None
