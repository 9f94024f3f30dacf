"""A store that does not answer is told within seconds, with what is wrong about it."""

from __future__ import annotations

import socket
import ssl
import time
from pathlib import Path

import pytest
import trustme

from calve.model.errors import StoreError
from calve.store import Access
from calve.store.reach import reach
from tests.support.http import Asked, Said, scripted

KEYS = {"s3.access-key-id": "a", "s3.secret-access-key": "canary-of-a-key", "s3.region": "us-east-1"}


@pytest.mark.parametrize("status", [404, 403, 200])
def test_a_store_that_answers_is_reached_whatever_it_says_of_an_object(status: int) -> None:
    headers = {"ETag": '"x"', "Last-Modified": "Mon, 16 Nov 2026 10:00:00 GMT"}
    with scripted(lambda _: Said(status, b"", headers)) as server:
        reach("s3://bucket/t", Access.of({**KEYS, "s3.endpoint": server.uri}))
    assert [asked.method for asked in server.asked] == ["HEAD"]


def test_a_disk_is_not_asked() -> None:
    reach("/nowhere/at/all", Access())


@pytest.mark.parametrize(
    "place", ["s3://bucket/t", "gs://bucket/t", "abfss://c@account.dfs.core.windows.net/t"]
)
def test_a_port_that_nobody_listens_on_is_told_within_seconds(place: str) -> None:
    settings = {
        **KEYS,
        "s3.endpoint": "http://127.0.0.1:1",
        "gcs.service.host": "http://127.0.0.1:1",
        "gcs.oauth2.token": "canary-of-a-key",
        "adls.blob-storage-authority": "127.0.0.1:1",
        "adls.blob-storage-scheme": "http",
        "adls.account-key": "Y2FuYXJ5LW9mLWEta2V5",
    }
    _told(place, settings)


def test_a_store_that_takes_a_connection_and_says_nothing_is_told_within_ten_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        _told("s3://bucket/t", {**KEYS, "s3.endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}"})


def test_a_certificate_that_is_not_trusted_is_told(tmp_path: Path) -> None:
    ca = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(tls)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    trusted = {"store.ca-file": str(tmp_path / "ca.pem")}
    with scripted(lambda _: Said(404, b""), tls) as server:
        _told("s3://bucket/t", {**KEYS, "s3.endpoint": server.uri})
        reach("s3://bucket/t", Access.of({**KEYS, "s3.endpoint": server.uri, **trusted}))


def test_a_bucket_in_another_region_is_told_with_the_region() -> None:
    """AWS answers such a request with a redirection that leads nowhere, and names the region."""

    def aws(asked: Asked) -> Said:
        return Said(301, b"", {"x-amz-bucket-region": "eu-west-1"})

    with scripted(aws) as server, pytest.raises(StoreError, match="region eu-west-1") as caught:
        reach("s3://bucket/t", Access.of({**KEYS, "s3.endpoint": server.uri}))
    assert "s3.region = eu-west-1" in caught.value.hint


def _told(place: str, settings: dict[str, str]) -> None:
    started = time.monotonic()
    with pytest.raises(StoreError) as caught:
        reach(place, Access.of(settings))
    assert time.monotonic() - started < 10
    assert caught.value.hint
    assert "canary" not in str(caught.value)
