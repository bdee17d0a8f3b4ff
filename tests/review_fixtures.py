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
    client = httpx.Client(base_url=f"http://127.0.0.1:{server.port}", follow_redirects=True, timeout=600, **options)
    assert client.get(server.new_address()).status_code == 200
    client.headers["origin"] = f"http://127.0.0.1:{server.port}"
    return client


@pytest.fixture
def client(server):
    signed_in = sign_in(server)
    yield signed_in
    signed_in.close()


IDLE = "document.querySelector('#card').getAttribute('aria-busy') === 'false'"


def until(page, condition):
    """Wait until an expression is true in the page; the page's own policy forbids Playwright's way."""
    for _ in range(3000):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    pytest.fail(f"never true: {condition}")


@pytest.fixture
def page(browser, server):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    opened = context.new_page()
    problems = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.goto(server.new_address())
    until(opened, IDLE)
    yield opened
    context.close()
    assert problems == []


FILLED = {
    "cards": "#row-labels li",
    "labels": "#label-grid li",
    "missing": "#missing-list li",
    "results": "#flagged li",
}


def open_view(page, view):
    """Open a view and wait for its content, pictures included."""
    page.click(f"nav button[data-view={view}]")
    page.wait_for_selector(FILLED[view])
    until(page, "[...document.images].every(image => image.complete || image.loading === 'lazy')")


def answered(page, number):
    until(page, f"document.querySelector('#facts dd').textContent.startsWith('{number}')")
    until(page, IDLE)  # the number may be there before the next card is, and a key would be dropped until then
