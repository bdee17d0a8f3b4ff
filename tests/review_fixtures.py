"""A small review to test with: the digit strips, whose truth plays the reviewer."""

import contextlib

import httpx
import pytest

from pmlkit.cleaning import clean
from pmlkit.cleaning.review.server import ReviewServer
from pmlkit.cleaning.review.session import Review
from pmlkit.cleaning.review.store import AnswerStore
from pmlkit.data import load_digit_strips


@pytest.fixture(scope="session")
def strips():
    return load_digit_strips(300, random_state=0)


@pytest.fixture(scope="session")
def strips_result(strips):
    return clean(strips.X, strips.Y, label_names=strips.label_names, media=strips.media)


@pytest.fixture
def store(tmp_path):
    with AnswerStore(tmp_path / "review.sqlite") as opened:
        yield opened


@pytest.fixture
def review(strips_result, store):
    return Review(strips_result, store, title="Digit strips")


@contextlib.contextmanager
def served(review, **options):
    server = ReviewServer(review, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server(review):
    with served(review) as running:
        yield running


def sign_in(server, **options):
    """Return a client that has used a token."""
    client = httpx.Client(base_url=f"http://127.0.0.1:{server.port}", follow_redirects=True, timeout=30, **options)
    assert client.get(server.new_address()).status_code == 200
    client.headers["origin"] = f"http://127.0.0.1:{server.port}"
    return client


@pytest.fixture
def client(server):
    signed_in = sign_in(server)
    yield signed_in
    signed_in.close()
