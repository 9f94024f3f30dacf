"""The proxy does what its schedule says: a fault that did something else would prove nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests

from tests.faults.proxy import Proxy
from tests.faults.schedule import NONE, Act, Fault, Kind, Reply, Schedule, Scripted

TABLE = "/v1/namespaces/ns/tables/t"
TIMEOUT_MS = 200
SECONDS = TIMEOUT_MS / 1000


class Upstream(ThreadingHTTPServer):
    """Counts what it applied, and shows the count."""

    daemon_threads = True
    applied = 0


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            server.applied += 1
            self.do_GET()

        def do_GET(self) -> None:
            body = json.dumps({"metadata": {"applied": server.applied}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: Any) -> None:
            pass

    server = Upstream(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def proxy_of(upstream: Upstream, schedule: Schedule) -> Proxy:
    return Proxy(f"http://127.0.0.1:{upstream.server_address[1]}", schedule, TIMEOUT_MS)


def post(proxy: Proxy, **headers: str) -> requests.Response:
    return requests.post(f"{proxy.uri}{TABLE}", json={}, headers=headers, timeout=SECONDS)


def get(proxy: Proxy) -> requests.Response:
    return requests.get(f"{proxy.uri}{TABLE}", timeout=SECONDS)


@pytest.mark.parametrize("act", [Act.APPLY, Act.DROP])
@pytest.mark.parametrize(
    "reply", [Reply.C409, Reply.C429, Reply.C500, Reply.C502, Reply.C503, Reply.C504, Reply.RESET]
)
def test_a_commit_is_applied_or_not_whatever_is_answered(upstream: Upstream, act: Act, reply: Reply) -> None:
    with proxy_of(upstream, Scripted([Fault(act, reply)])) as proxy:
        if reply is Reply.RESET:
            with pytest.raises(requests.ConnectionError):
                post(proxy)
        else:
            assert post(proxy).status_code == reply.status
        assert upstream.applied == (act is Act.APPLY)
        assert post(proxy).json() == {"metadata": {"applied": 1 + (act is Act.APPLY)}}


def test_a_body_is_cut(upstream: Upstream) -> None:
    with proxy_of(upstream, Scripted([Fault(Act.APPLY, Reply.CUT)])) as proxy:
        answer = post(proxy)
    assert answer.status_code == 200
    with pytest.raises(requests.exceptions.JSONDecodeError):
        answer.json()


def test_fewer_bytes_come_than_were_promised(upstream: Upstream) -> None:
    with proxy_of(upstream, Scripted([Fault(Act.APPLY, Reply.SHORT)])) as proxy:
        with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
            post(proxy)
    assert upstream.applied == 1


def test_a_request_can_be_applied_after_its_client_gave_up(upstream: Upstream) -> None:
    with proxy_of(upstream, Scripted([Fault(Act.APPLY_LATE, Reply.SILENCE)])) as proxy:
        with pytest.raises(requests.Timeout):
            post(proxy)
        assert upstream.applied == 0
        proxy.drain()
    assert upstream.applied == 1


def test_a_request_can_arrive_twice(upstream: Upstream) -> None:
    with proxy_of(upstream, Scripted([Fault(Act.APPLY_TWICE, Reply.TRUE)])) as proxy:
        assert post(proxy).json() == {"metadata": {"applied": 2}}


def test_a_load_can_show_an_older_table(upstream: Upstream) -> None:
    with proxy_of(upstream, Scripted(loads=[Fault(Act.DROP, Reply.OLDER)])) as proxy:
        post(proxy)
        upstream.applied = 7
        assert get(proxy).json() == {"metadata": {"applied": 1}, "config": {}}
        assert get(proxy).json() == {"metadata": {"applied": 7}}


def test_a_token_that_was_refused_stays_refused(upstream: Upstream) -> None:
    expired = Fault(Act.DROP, Reply.EXPIRED)
    with proxy_of(upstream, Scripted([expired, expired, NONE, expired])) as proxy:
        tokens = f"{proxy.uri}/v1/oauth/tokens"
        old, new = (requests.post(tokens, timeout=SECONDS).json()["access_token"] for _ in range(2))
        assert post(proxy, Authorization=f"Bearer {old}").status_code == 200
        assert post(proxy, Authorization=f"Bearer {old}").status_code == 401
        assert post(proxy, Authorization=f"Bearer {old}").status_code == 401
        assert post(proxy, Authorization=f"Bearer {new}").status_code == 200
    assert upstream.applied == 2


def test_every_fault_is_counted_and_told_with_its_number(upstream: Upstream) -> None:
    fault = Fault(Act.APPLY, Reply.C503)
    with proxy_of(upstream, Scripted([NONE, fault])) as proxy:
        post(proxy, **{"X-Run": "a1"})
        post(proxy, **{"X-Run": "b2"})
    assert proxy.faults == {(Kind.COMMIT, fault): 1}
    assert proxy.log[1].startswith("2 commit 2 of b2: applied: 503 (server: 200)")


def test_a_seed_gives_the_same_faults_again() -> None:
    def drawn(seed: str) -> list[Fault]:
        return [Schedule(seed).fault(Kind.COMMIT, number) for number in range(200)]

    assert drawn("7/0") == drawn("7/0")
    assert drawn("7/0") != drawn("7/1")
