"""What a store says is passed on: the place once, the reason, and no secret."""

from __future__ import annotations

import pytest

from calve.model.errors import AccessDenied
from calve.store import Access, store_for
from tests.support.http import Said, scripted

SECRET = "canary-of-a-store"
LOCATION = f"s3://bucket/lake/{'a long name/' * 12}data-00000.parquet"


def test_the_stores_own_reason_is_told_however_long_the_name_is() -> None:
    body = f"<Error><Code>AccessDenied</Code><Message>No writes on Sundays, {SECRET}</Message></Error>"
    with scripted(lambda _: Said(403, body.encode(), {"Content-Type": "application/xml"})) as server:
        access = Access.of(
            {
                "s3.endpoint": server.uri,
                "s3.region": "us-east-1",
                "s3.access-key-id": "ana",
                "s3.secret-access-key": SECRET,
            }
        )
        with pytest.raises(AccessDenied) as denied:
            store_for(LOCATION, access).create(LOCATION).close()
    assert "No writes on Sundays, ***" in denied.value.message
    assert denied.value.message.count("data-00000.parquet") == 1
    assert SECRET not in str(denied.value)
