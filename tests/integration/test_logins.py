"""Logins of stores as people have them: keys, profile, environment, roles, shared signatures, identities.

Real stores that check who asks, where there is one: SeaweedFS for AWS, Azurite for Azure. Before Google's
emulator stands a front that looks at what is sent. What gives out credentials (a role's endpoint, an identity
provider) is a server of the test.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
import os
import ssl
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
import trustme

import calve.store
from calve.model.errors import AccessDenied, CalveError
from calve.store import Access, Store, store_for
from tests.support.http import Asked, Said, scripted
from tests.support.servers import azurite as azure
from tests.support.servers import seaweedfs as weed
from tests.support.servers.azurite import Azurite
from tests.support.servers.gcs import BUCKET, GoogleStorage
from tests.support.servers.moto import Moto
from tests.support.servers.seaweedfs import SeaweedFS

pytestmark = pytest.mark.servers

_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")


@pytest.fixture(autouse=True)
def no_other_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing of the machine's own logins; and no client that was opened under another one."""
    for name in [name for name in os.environ if name.startswith(_VARIABLES)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    calve.store._opened.cache_clear()
    yield
    calve.store._opened.cache_clear()


def write_and_read(location: str, **settings: str) -> tuple[Store, str]:
    """Write an object and read it back, under a name of its own."""
    place = f"{location}/{uuid.uuid4()}"
    store = store_for(place, Access.of(settings))
    with store.create(place) as file:
        file.write(b"content")
    assert store.open(place).read() == b"content"
    return store, place


def round_trip(location: str, **settings: str) -> None:
    """The same, and delete it."""
    store, place = write_and_read(location, **settings)
    store.delete(place)


# -- AWS -------------------------------------------------------------------------------------------


def s3(server: SeaweedFS) -> dict[str, str]:
    return {"s3.endpoint": server.s3_uri, "s3.region": weed.REGION}


def test_keys(seaweedfs: SeaweedFS) -> None:
    keys = {"s3.access-key-id": weed.KEY, "s3.secret-access-key": weed.SECRET}
    round_trip(f"s3://{weed.BUCKET}", **s3(seaweedfs), **keys)
    with pytest.raises(AccessDenied) as caught:
        round_trip(f"s3://{weed.BUCKET}", **s3(seaweedfs), **keys | {"s3.secret-access-key": "canary-wrong"})
    assert "canary" not in str(caught.value)


def test_the_environment(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", weed.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", weed.SECRET)
    round_trip(f"s3://{weed.BUCKET}", **s3(seaweedfs))


def test_a_token_of_the_environment_does_not_go_with_keys_that_were_given(
    seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of somebody else")
    keys = {"s3.access-key-id": weed.KEY, "s3.secret-access-key": weed.SECRET}
    round_trip(f"s3://{weed.BUCKET}", **s3(seaweedfs), **keys)


def test_a_profile(seaweedfs: SeaweedFS, tmp_path: Path) -> None:
    text = f"[lake]\naws_access_key_id = {weed.KEY}\naws_secret_access_key = {weed.SECRET}\n"
    (tmp_path / "credentials").write_text(text, encoding="utf-8")
    round_trip(f"s3://{weed.BUCKET}", **s3(seaweedfs), **{"client.profile-name": "lake"})


def test_the_role_of_a_container(
    seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a machine's own role gives out, as ECS and EKS do."""
    token = tmp_path / "token"
    token.write_text("t", encoding="utf-8")

    def role(_: Asked) -> Said:
        expires = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
        keys = {"AccessKeyId": weed.KEY, "SecretAccessKey": weed.SECRET, "Token": ""}
        return Said(200, {**keys, "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")})

    with scripted(role) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.uri}/role")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
        round_trip(f"s3://{weed.BUCKET}", **s3(seaweedfs))
        assert server.asked_for("/role")


def test_a_role_that_is_assumed(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    """moto's STS gives out keys of its own; its store takes any."""
    seen: list[str] = []

    def sts(asked: Asked) -> Said:
        seen.append(asked.form.get("RoleArn", "") + " " + asked.form.get("ExternalId", ""))
        expires = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = (
            "<AssumeRoleResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleResult>"
            "<Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
            f"<SessionToken>t</SessionToken><Expiration>{expires}</Expiration></Credentials>"
            "</AssumeRoleResult></AssumeRoleResponse>"
        )
        return Said(200, body.encode())

    role = "arn:aws:iam::123456789012:role/lake"
    with scripted(sts) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.uri)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASOURCE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
        settings = {"client.role-arn": role, "client.role-external-id": "ext", "client.region": "us-east-1"}
        round_trip(f"s3://{BUCKET}", **{"s3.endpoint": moto.s3_uri}, **settings)
    assert seen == [f"{role} ext"]


def test_encryption_is_asked_for(moto: Moto) -> None:
    """moto keeps what it was asked for with the object."""
    client = boto3.client(
        "s3",
        endpoint_url=moto.s3_uri,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    place = f"s3://{BUCKET}/{uuid.uuid4()}"
    settings = {
        "s3.endpoint": moto.s3_uri,
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.region": "us-east-1",
        "s3.sse.type": "kms",
        "s3.sse.key": "arn:aws:kms:us-east-1:123456789012:key/k",
    }
    store = store_for(place, Access.of(settings))
    for content in (b"small", b"x" * (9 * 1024 * 1024)):  # in one request, and in parts
        with store.create(place) as file:
            file.write(content)
        found = client.head_object(Bucket=BUCKET, Key=place.rpartition("/")[2])
        assert found["ServerSideEncryption"] == "aws:kms"
        assert found["SSEKMSKeyId"].endswith("key/k")


# -- Azure -----------------------------------------------------------------------------------------


def abfs(server: Azurite) -> tuple[str, dict[str, str]]:
    host = urllib.parse.urlsplit(server.uri).netloc
    location = f"abfss://{azure.CONTAINER}@{azure.ACCOUNT}.dfs.core.windows.net"
    return location, {"adls.blob-storage-authority": host, "adls.blob-storage-scheme": "http"}


def test_an_accounts_key(azurite: Azurite) -> None:
    location, settings = abfs(azurite)
    round_trip(location, **settings, **{"adls.account-key": azure.KEY})
    wrong = base64.b64encode(b"canary-wrong").decode()
    with pytest.raises(CalveError) as caught:
        round_trip(location, **settings, **{"adls.account-key": wrong})
    assert wrong not in str(caught.value)


def test_a_shared_access_signature(azurite: Azurite) -> None:
    location, settings = abfs(azurite)
    sas = _account_sas(dt.timedelta(hours=1))
    # Azurite fails on a delete with a signature.
    write_and_read(location, **settings, **{"adls.sas-token": sas})
    write_and_read(location, **settings, **{f"adls.sas-token.{azure.ACCOUNT}.dfs.core.windows.net": sas})
    with pytest.raises(CalveError) as caught:
        round_trip(location, **settings, **{"adls.sas-token": _account_sas(-dt.timedelta(hours=1))})
    assert "sig=" not in str(caught.value).replace("sig=***", "")


def _account_sas(life: dt.timedelta) -> str:
    expires = (dt.datetime.now(dt.UTC) + life).strftime("%Y-%m-%dT%H:%M:%SZ")
    version, rights, services, kinds = "2021-08-06", "rwdlac", "b", "sco"
    text = "\n".join([azure.ACCOUNT, rights, services, kinds, "", expires, "", "", version, "", ""])
    digest = hmac.new(base64.b64decode(azure.KEY), text.encode(), hashlib.sha256).digest()
    return urllib.parse.urlencode(
        {
            "sv": version,
            "ss": services,
            "srt": kinds,
            "sp": rights,
            "se": expires,
            "sig": base64.b64encode(digest).decode(),
        }
    )


def test_an_identity(tmp_path: Path) -> None:
    """A client's id and secret: the identity provider gives a token, Azurite looks at it. It does so by HTTPS
    only, with a certificate of a CA of our own."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    own = ca.issue_cert("127.0.0.1")
    own.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    own.private_key_pem.write_to_path(tmp_path / "key.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    tenant = str(uuid.uuid4())

    def provider(asked: Asked) -> Said:
        assert asked.form["client_secret"] == "canary-of-a-client"
        now = int(time.time())
        claims = {
            "aud": "https://storage.azure.com",
            "iss": f"https://sts.windows.net/{tenant}/",
            "nbf": now - 60,
            "iat": now - 60,
            "exp": now + 3600,
        }
        parts = ({"alg": "none"}, claims)
        token = ".".join(
            base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
        )
        return Said(200, {"access_token": f"{token}.x", "expires_in": 3600, "token_type": "Bearer"})

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.configure_cert(tls)
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    with scripted(provider, tls) as identity, Azurite(tls=files) as server:
        location, settings = abfs(server)
        settings |= {
            "adls.blob-storage-scheme": "https",
            "adls.tenant-id": tenant,
            "adls.client-id": "lake",
            "adls.client-secret": "canary-of-a-client",
            "adls.authority-host": identity.uri,
            "store.ca-file": str(tmp_path / "ca.pem"),
        }
        round_trip(location, **settings)
        assert identity.asked
        with pytest.raises(CalveError) as caught:
            round_trip(location, **settings | {"store.ca-file": str(tmp_path / "other.pem")})
        assert "canary" not in str(caught.value)


# -- Google ----------------------------------------------------------------------------------------


@pytest.fixture
def google(gcs: GoogleStorage) -> Iterator[tuple[str, list[str]]]:
    """The emulator behind a front that keeps what logins it saw."""
    from tests.support.servers.vending import _Front, _serving

    seen: list[str] = []

    class Handler(_Front):
        target = gcs.uri

        def answer(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.reply(*self.forward())

    with _serving(Handler) as uri:
        yield uri, seen


def _service_account(tmp_path: Path) -> Path:
    key = trustme.CA().issue_cert("lake", key_type=trustme.KeyType.RSA).private_key_pem.bytes().decode()
    file = tmp_path / "account.json"
    account = {
        "type": "service_account",
        "private_key": key,
        "private_key_id": "1",
        "client_email": "lake@example.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    file.write_text(json.dumps(account), encoding="utf-8")
    return file


def test_a_service_account(google: tuple[str, list[str]], tmp_path: Path) -> None:
    uri, seen = google
    file = _service_account(tmp_path)
    round_trip(f"gs://{BUCKET}", **{"gcs.service.host": uri, "gcs.service-account-file": str(file)})
    claims = json.loads(base64.urlsafe_b64decode(seen[0].split(".")[1] + "=="))
    assert claims["iss"] == "lake@example.iam.gserviceaccount.com"


def test_default_credentials(
    google: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, seen = google
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(_service_account(tmp_path)))
    round_trip(f"gs://{BUCKET}", **{"gcs.service.host": uri})
    assert all(login.startswith("Bearer ey") for login in seen)


def test_a_token(google: tuple[str, list[str]]) -> None:
    uri, seen = google
    round_trip(f"gs://{BUCKET}", **{"gcs.service.host": uri, "gcs.oauth2.token": "canary-token"})
    assert {*seen} == {"Bearer canary-token"}
