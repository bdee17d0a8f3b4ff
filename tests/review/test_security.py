"""Each test fails without the defence that it is about."""

import contextlib
import json
import socket
from types import SimpleNamespace

import httpx
import pytest

from pmlkit.cleaning.review import server as web_server
from pmlkit.cleaning.review.server import ReviewServer
from pmlkit.cleaning.review.session import Review
from pmlkit.cleaning.review.store import AnswerStore
from pmlkit.exceptions import DataError
from review_fixtures import served, sign_in


def url(server, path="/"):
    return f"http://127.0.0.1:{server.port}{path}"


def test_without_a_token_nothing_is_shown(server):
    for path in ("/", "/api/state", "/api/card", "/api/picture?row=0", "/api/download?what=answers", "/?token=guess"):
        assert httpx.get(url(server, path)).status_code == 401


def test_a_token_opens_the_page_once(server):
    address = server.new_address()
    first = httpx.get(address)
    assert first.status_code == 303
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "token" not in first.headers["location"]
    assert httpx.get(address).status_code == 401


def test_a_browser_stays_signed_in_when_the_server_restarts(strips_result, tmp_path):
    with AnswerStore(tmp_path / "r.sqlite") as store:
        with served(Review(strips_result, store)) as first:
            client, port = sign_in(first), first.port
        with served(Review(strips_result, store), port=port):
            assert client.get("/api/state").status_code == 200
            client.close()


def test_other_host_names_are_refused(server, client):
    """A name that somebody else's DNS lets point to this machine must not be served."""
    assert client.get("/api/state", headers={"host": f"evil.example:{server.port}"}).status_code == 421
    assert client.get("/api/state", headers={"host": "127.0.0.1"}).status_code == 421
    assert client.get("/api/state").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_answers_from_other_sites_are_refused(client, review, headers):
    card = client.get("/api/card").json()["card"]
    body = {"row": card["row"], "label": card["label"], "kind": card["kind"], "answer": "wrong", "client": "x"}
    assert client.post("/api/answer", json=body, headers=headers).status_code == 403
    assert review.store.events() == []
    assert client.post("/api/answer", json=body).status_code == 200
    assert len(review.store.events()) == 1


def test_a_form_of_another_page_cannot_send_answers(client, review):
    body = json.dumps({"row": 0, "label": "0", "answer": "wrong"})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert client.post("/api/answer", content=body, headers={"content-type": kind}).status_code == 415
    assert review.store.events() == []


def test_reading_from_another_site_is_refused(client):
    assert client.get("/api/card", headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_every_answer_carries_a_strict_policy(client):
    for path in ("/", "/api/state", "/static/review.js", "/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    page = client.get("/").text
    assert "<script>" not in page
    assert "style=" not in page
    assert " on" + "click=" not in page


def test_a_title_is_shown_as_text(strips_result, tmp_path):
    with (
        AnswerStore(tmp_path / "r.sqlite") as store,
        served(Review(strips_result, store, title="<script>alert(1)</script>")) as server,
        contextlib.closing(sign_in(server)) as client,
    ):
        page = client.get("/").text
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_large_requests_are_refused(client, review):
    body = json.dumps({"row": 0, "label": "0" * 2**21, "answer": "wrong"})
    headers = {"content-type": "application/json"}
    assert client.post("/api/answer", content=body, headers=headers).status_code == 413

    def pieces():  # a body without a length that can be checked before
        for _ in range(40):
            yield b"[" * 2**16

    try:
        answer = client.post("/api/answer", content=pieces(), headers=headers)
    except httpx.HTTPError:
        answer = None
    assert answer is None or answer.status_code >= 400
    assert review.store.events() == []


def test_a_flood_is_slowed_down(server, monkeypatch):
    """The clock stands still, so that how fast this machine sends does not matter."""
    now = [0.0]
    monkeypatch.setattr(web_server, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with httpx.Client(timeout=600) as client:

        def sent(number):
            return [client.get(url(server, "/static/icon.svg")).status_code for _ in range(number)]

        assert sent(1000) == [200] * 1000
        assert sent(3) == [429] * 3
        now[0] += 0.01
        assert sent(7) == [200] * 5 + [429] * 2


def test_a_flood_from_another_site_leaves_the_page_usable(server, client, monkeypatch):
    now = web_server.time.monotonic()
    monkeypatch.setattr(web_server, "time", SimpleNamespace(monotonic=lambda: now))
    with httpx.Client(timeout=600, headers={"sec-fetch-site": "cross-site"}) as other:
        assert [other.get(url(server, "/static/icon.svg")).status_code for _ in range(1001)][-1] == 429
    assert client.get("/api/state").status_code == 200


@pytest.mark.parametrize("body", ["[" * 100_000, '{"who": "\\ud800"}', "[]", '{"who": " "}'])
def test_a_bad_name_gets_a_sentence(client, body):
    answer = client.post("/api/name", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.text) == (400, "A name must have at least one letter.\n")


@pytest.mark.parametrize(
    "body",
    ["", "[]", "{", '"text"', "[" * 5000, '{"row": 1e999}', '{"row": -1, "label": "0", "answer": "wrong"}',
     '{"row": 0, "label": {"a": 1}, "answer": "wrong"}', '{"row": true, "label": "0", "answer": "wrong"}',
     '{"row": 99999999999999999999, "label": "0", "answer": "wrong"}'],
)  # fmt: skip
def test_bad_requests_get_a_sentence_and_store_nothing(client, review, body):
    answer = client.post("/api/answer", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.text.strip()
    assert "Traceback" not in answer.text
    assert review.store.events() == []


def test_only_known_files_are_served(client):
    for name in ("../server.py", "%2e%2e/server.py", "..%2fserver.py", "review.js/../../server.py", "nothing.js"):
        assert client.get(f"/static/{name}").status_code in (404, 401)


def test_the_server_binds_to_loopback_only(server):
    assert server.is_loopback
    assert server._socket.getsockname()[0] == "127.0.0.1"


def test_a_server_that_never_ran_gives_its_port_back(review):
    first = ReviewServer(review)
    first.close()
    ReviewServer(review, port=first.port).close()


def test_a_port_in_use_is_said(review, server):
    with pytest.raises(DataError, match=f"port {server.port} .* cannot be used"):
        ReviewServer(review, port=server.port)


def test_answers_do_not_wait_for_the_clients_acknowledgement(server):
    """Without the protocol, asyncio leaves Nagle's algorithm on: 40 ms for each request of a kept connection."""
    assert server._socket.proto == socket.IPPROTO_TCP
