"""The door to the Hive metastore: addresses, timeouts, and what each failure to open says."""

from __future__ import annotations

import socket
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from pyiceberg.exceptions import CommitStateUnknownException, ServiceUnavailableError

from calve import CatalogConfig, CatalogError, ConfigError
from calve.config.secret import Secrets
from calve.model.errors import BadName
from calve.table.catalogs import hive, open_catalog

TEN_SECONDS = 10.0


def opened(uri: str, **properties: str) -> None:
    open_catalog(CatalogConfig(type="hive", uri=uri, warehouse="/w", properties=properties))


def at(uri: str, **properties: str) -> hive.Hive:
    """A catalog that nobody has asked yet whether it is there."""
    return hive.Hive("calve", {"uri": uri, "warehouse": "/w", **properties}, Secrets())


@pytest.mark.parametrize(
    "uri",
    [
        "thrift://host",
        "thrift://:9083",
        "thrift://host:port",
        "thrift://host:99999",
        "thrift://a:1,http://b:2",
        "thrift://a:1,",
        "thrift://user:canary@host:9083",
    ],
)
def test_an_address_that_is_none_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="not the address of a Hive metastore") as caught:
        opened(uri)
    assert "canary" not in str(caught.value)


def test_a_wrong_port_is_said_within_ten_seconds() -> None:
    begun = time.monotonic()
    with pytest.raises(CatalogError, match=r"at thrift://127\.0\.0\.1:9 cannot be reached"):
        opened("thrift://127.0.0.1:9")
    assert time.monotonic() - begun < TEN_SECONDS


def test_a_wrong_host_is_said_within_ten_seconds() -> None:
    begun = time.monotonic()
    with pytest.raises(CatalogError, match="failed to resolve"):
        opened("thrift://no-such-host.invalid:9083")
    assert time.monotonic() - begun < TEN_SECONDS


def test_a_server_that_never_answers_is_said_within_ten_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        with pytest.raises(CatalogError, match="read timeout"):
            opened(f"thrift://127.0.0.1:{silent.getsockname()[1]}")
        assert time.monotonic() - begun < TEN_SECONDS


def test_a_server_that_speaks_something_else_is_said() -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(CatalogError, match="cannot be reached"):
            opened(f"thrift://127.0.0.1:{server.server_port}")
        thread.join()


def test_a_call_that_was_not_sent_differs_from_one_whose_answer_was_lost() -> None:
    with pytest.raises(ServiceUnavailableError):
        at("thrift://127.0.0.1:9").create_namespace("ns")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        catalog = at(f"thrift://127.0.0.1:{silent.getsockname()[1]}", **{"hive.request-timeout": "0.1"})
        begun = time.monotonic()
        with pytest.raises(CommitStateUnknownException):
            catalog.drop_table("ns.t")
        assert time.monotonic() - begun < 2


@pytest.mark.parametrize("name", ["hive.request-timeout", "hive.lock-wait"])
@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_a_timeout_that_is_none_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=name):
        opened("thrift://127.0.0.1:9", **{name: text})


def test_kerberos_without_its_packages_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "puresasl", None)
    with pytest.raises(ConfigError, match="puresasl") as caught:
        opened("thrift://127.0.0.1:9", **{"hive.kerberos-authentication": "true"})
    assert "hive-kerberos" in caught.value.hint


def test_a_name_that_cannot_be_locked_is_refused() -> None:
    with pytest.raises(BadName, match="longer than a Hive metastore can lock"):
        at("thrift://127.0.0.1:9").load_table(("ns", "t" * 129))
