"""The page in a real browser with other data: a text table from the command line, and rows that are hard to lay out."""

import csv
import json
import re
import signal

import numpy as np
import pytest

import forked
from pmlkit.cleaning import clean
from pmlkit.cleaning.review.session import Review
from pmlkit.cleaning.review.store import AnswerStore
from post_tables import make_posts, write_posts
from review_fixtures import IDLE, answered, open_view, served, until

VIEWS = ("cards", "labels", "missing", "results")


class Command:
    """``pmlkit review`` in a process of its own."""

    def __init__(self, *words):
        self.process = forked.Popen(["review", *words, "--no-browser"], stdout=forked.PIPE, text=True)
        self.address = self.process.stdout.readline().partition("The review page: ")[2].strip()
        self.port = self.address.partition("/?")[0].rpartition(":")[2]

    def end(self, number=signal.SIGINT):
        with self.process:
            self.process.send_signal(number)
            self.process.communicate()


def said_by_the_truth(page, truth):
    """Return the key for the question on the page."""
    return "a" if page.inner_text("#question strong") in truth[page.inner_text("#row-name")] else "x"


def test_the_whole_walk_on_a_text_table(browser, tmp_path):
    """Open, answer by keyboard, undo, filter, decide many rows, learn, certificate, export, apply."""
    path, store = tmp_path / "posts.csv", tmp_path / "r.sqlite"
    posts = make_posts(900)
    options = write_posts(posts, path)
    truth = {name: true for name, _, _, true in posts}
    server = Command(path, *options, "--answers", store)
    page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    page.goto(server.address)
    until(page, IDLE)
    marked = page.locator("#row mark").all_inner_texts()
    assert all(word in page.inner_text("#row") for word in marked)

    first = page.inner_text("#question"), page.inner_text("#row-name")
    page.keyboard.press("x")
    answered(page, 1)
    page.keyboard.press("Backspace")
    answered(page, 0)
    assert (page.inner_text("#question"), page.inner_text("#row-name")) == first

    page.click("#filter-box summary")
    page.fill("#filter-text", "cook3")
    until(page, "document.querySelector('#kind').textContent === 'your selection'")
    assert "cook3" in page.inner_text("#row")
    page.click("#filters button[type=reset]")
    until(page, "document.querySelector('#kind').textContent === 'random sample'")
    page.keyboard.press("Escape")

    count = 0
    while not page.locator("#promise.certified").count():
        page.keyboard.press(said_by_the_truth(page, truth))
        count += 1
        answered(page, count)
        if count % 20 == 0:
            page.wait_for_timeout(600)  # the promise may follow a moment after the answer
        assert count < 200
    assert page.locator("#row mark").count() + len(marked) > 0

    page.click("#learn")
    until(page, "document.querySelector('#learn-note').textContent.startsWith('Confidences')")

    open_view(page, "labels")
    label = page.input_value("#label-choice")
    page.fill("#label-search", "word7")
    until(page, "document.querySelectorAll('#label-grid li').length < 60")
    page.locator("#label-grid li:not(.answered) input").first.check()
    page.click("[data-bulk=right]")
    until(page, "document.querySelector('#announce').textContent.startsWith('1 row:')")

    open_view(page, "results")
    with page.expect_download() as download:
        page.click("#downloads >> text=Cleaned table")
    exported = download.value.path().read_bytes()
    with page.expect_download() as download:
        page.click("#downloads >> text=Report (HTML)")
    promised = re.search(r"Of the ([\d,]+) labels removed at least 90 %", download.value.path().read_text())[1]
    until(page, f"document.querySelector('#may-go').textContent === '{promised}'")
    page.context.close()
    server.end()

    done = forked.run(
        ["apply", store, path, *options, "-o", tmp_path / "c.csv", "--json"], capture_output=True, text=True
    )
    assert json.loads(done.stdout)["answers"] == count + 1
    assert (tmp_path / "c.csv").read_bytes() == exported
    with AnswerStore(store) as opened:
        assert opened.standing()[-1].label == label
        wrong = {(event.row, event.label) for event in opened.standing() if event.answer == "wrong"}
    lines = list(csv.reader(exported.decode().splitlines()))[1:]
    assert all(label not in lines[row][2].split(";") for row, label in wrong)


def test_a_killed_server_comes_back_and_the_page_goes_on(browser, tmp_path):
    """An answer that is given while the server is down is sent when it is there again, and stored once."""
    path, store = tmp_path / "posts.csv", tmp_path / "r.sqlite"
    options = (*write_posts(make_posts(120), path), "--answers", store)
    server = Command(path, *options)
    pages = [browser.new_context().new_page() for _ in range(2)]
    pages[0].goto(server.address)
    until(pages[0], IDLE)
    open_view(pages[0], "results")
    pages[0].click("#invite")
    until(pages[0], "document.querySelector('#invite-link').textContent.startsWith('http')")
    pages[1].goto(pages[0].inner_text("#invite-link"))
    open_view(pages[0], "cards")
    for page in pages:
        until(page, IDLE)
        page.keyboard.press("x")
        until(page, "document.querySelector('#announce').textContent.includes('saved')")
    server.end(signal.SIGKILL)
    shown = []
    for page in pages:
        shown.append((page.inner_text("#row-name"), page.inner_text("#question strong")))
        page.keyboard.press("a")
        page.wait_for_selector("#offline:visible")
        assert "does not answer" in page.inner_text("#offline")
    server = Command(path, *options, "--port", server.port)
    for page in pages:
        until(page, "document.querySelector('#offline').hidden")
        until(page, IDLE)
        page.keyboard.press("x")
        until(page, IDLE)
        page.context.close()
    server.end()
    with AnswerStore(store) as opened:
        events = opened.events()
    assert [event.answer for event in events][:2] == ["wrong", "wrong"]
    assert sorted(event.answer for event in events[2:]) == ["right", "right", "wrong", "wrong"]
    given = {(f"p{event.row}", event.label) for event in events if event.answer == "right"}
    assert given == set(shown)
    assert len({event.who for event in events}) == 2


@pytest.fixture(scope="module")
def crowded():
    """Rows with 1, 4 and 40 labels, texts of 2 to 3,000 words, and names that are long, hostile or of other scripts."""
    rng = np.random.default_rng(0)
    n_samples, n_labels = 150, 60
    names = [f"label {i}" for i in range(n_labels)]
    names[:8] = [
        "<script>alert(1)</script>", "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenträger" * 2,
        "a name of many words that somebody typed without a thought about columns " * 2, "e-mail", "Email",
        "recipe", "recipes", "مرحبا بالعالم",
    ]  # fmt: skip
    Y = np.zeros((n_samples, n_labels), dtype=int)
    for i in range(n_samples):
        Y[i, rng.choice(n_labels - 2, (1, 40, 4)[i % 3], replace=False)] = 1
    Y[0, -2] = Y[1, -1] = 1  # on too few rows
    words = np.array(
        ["some", "words", "of", "a", "text", "that", "says", "nothing", "<b>goes", "on</b>", "very", "long"]
    )
    texts = [" ".join(rng.choice(words, (2, 3000, 40)[i % 3])) + "x" * (300 * (i % 2)) for i in range(n_samples)]
    X = rng.normal(size=(n_samples, 20)) + Y[:, :20]
    rows = [f"{'a/long/path/' * 12}{i}" if i % 5 == 0 else f"row {i}" for i in range(n_samples)]
    return clean(X, Y, label_names=names, media=texts, row_names=rows)


@pytest.fixture
def full_review(crowded, tmp_path):
    """A review with something in every list."""
    with AnswerStore(tmp_path / "r.sqlite") as store:
        review = Review(crowded, store, title="A long title " * 20)
        for i in range(24):
            card = review.card("ann", {})["card"]
            cell = {"row": card["row"], "label": card["label"]}
            review.answer("ann", {**cell, "kind": card["kind"], "answer": ("wrong", "right", "unsure")[i % 3]})
            if i % 4 == 0:
                review.flag("ann", cell)
                review.bulk("ben", {"rows": [card["row"]], "label": card["label"], "answer": "right"})
        for row in review.missing_rows("ann", {})["rows"][:3]:
            review.answer_missing("ann", {"row": row["row"], "label": row["label"], "answer": "right"})
        yield review
        review.questions.close()


OUTSIDE = """[...document.querySelectorAll('main *, aside *, header *')].filter(part => {
  const box = part.getBoundingClientRect();
  const is_cut = (one) => one && one !== document.body
    && (getComputedStyle(one).overflowX !== 'visible' || is_cut(one.parentElement));
  const is_out = box.width > 1 && (box.right > document.documentElement.clientWidth + 1 || box.left < -1);
  return is_out && !is_cut(part.parentElement);
}).map(part => part.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hard_rows_fit_at_every_width_without_a_serious_finding(browser, full_review, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = []
    with served(full_review) as server:
        for width in (400, 1000, 1400, 1600):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.goto(server.new_address())
            until(page, IDLE)
            page.click("#filter-box summary")
            for view in (*VIEWS, "help"):
                if view == "help":
                    page.keyboard.press("?")
                else:
                    open_view(page, view)
                assert page.evaluate(OUTSIDE) == [], (view, width)
                if width in (400, 1400):
                    problems = axe.run(page).response["violations"]
                    found += [(view, width, p["id"]) for p in problems if p["impact"] in ("serious", "critical")]
            context.close()
    assert found == []


def test_the_suspect_is_seen_among_forty_labels(browser, full_review):
    with served(full_review) as server:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(server.new_address())
        until(page, IDLE)
        n_seen = 0
        for _ in range(12):
            if page.locator("#row-labels li").count() >= 40:
                n_seen += 1
                assert "40" in page.inner_text("#labels-title") or "41" in page.inner_text("#labels-title")
                shown, box = (
                    page.locator("#row-labels .suspect").bounding_box(),
                    page.locator("#row-labels").bounding_box(),
                )
                assert shown["y"] >= box["y"] - 1
                assert shown["y"] + shown["height"] <= box["y"] + box["height"] + 1
            page.evaluate("document.querySelector('#announce').textContent = ''")
            page.keyboard.press("Space")
            until(page, "document.querySelector('#announce').textContent.endsWith('right?')")
        page.context.close()
    assert n_seen > 0


def test_nothing_moves_from_card_to_card(browser, full_review):
    """The buttons and the panel stay where they are, however long the text and however many labels."""
    parts = ".decide, #row, #facts, #next-gain, #learn, #recent"
    places = f"[...document.querySelectorAll('{parts}')].map(part => part.getBoundingClientRect().top)"
    with served(full_review) as server:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(server.new_address())
        until(page, IDLE)
        seen = set()
        for _ in range(15):
            seen.add(tuple(page.evaluate(places)))
            page.evaluate("document.querySelector('#announce').textContent = ''")
            page.keyboard.press("x")
            until(page, "document.querySelector('#announce').textContent.endsWith('right?')")
        page.context.close()
    assert len(seen) == 1


def test_suggestions_are_answered_by_the_keys_of_the_cards(page, review):
    open_view(page, "missing")
    names = [row["label"] for row in review.missing_rows("ann", {})["rows"][:3]]

    def settled(number, pressed):
        until(page, f"document.querySelectorAll('#missing-list .answered').length === {number}")
        until(page, IDLE)
        assert [(e.label, e.answer) for e in review.store.standing()] == pressed

    page.keyboard.press("a")
    settled(1, [(names[0], "right")])
    page.keyboard.press("x")
    settled(2, [(names[0], "right"), (names[1], "wrong")])
    page.keyboard.press("Backspace")
    settled(1, [(names[0], "right")])
    page.keyboard.press("a")
    settled(2, [(names[0], "right"), (names[1], "right")])


def test_a_screen_reader_hears_what_was_saved_and_what_is_asked_next(page):
    label = page.inner_text("#question strong")
    page.keyboard.press("x")
    answered(page, 1)
    said = page.inner_text("#announce")
    assert said.startswith(f"{label}: wrong, saved.")
    assert said.endswith(f"{page.inner_text('#row-name')}: is {page.inner_text('#question strong')} right?")
    assert page.get_attribute("#announce", "aria-live") == "polite"


def test_nearly_equal_names_are_merged_on_the_page(browser, full_review):
    with served(full_review) as server:
        page = browser.new_page()
        page.goto(server.new_address())
        until(page, IDLE)
        open_view(page, "results")
        assert page.locator("#names li").count() == 2
        assert "label 58, label 59" in page.inner_text("#rare")
        page.click("#names button >> text=Call both Email")
        until(page, "document.querySelector('#names').textContent.includes('is written as')")
        page.context.close()
    assert full_review.replay.merged == {"e-mail": "Email"}
