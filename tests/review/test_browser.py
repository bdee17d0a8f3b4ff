"""The whole walk in a real browser."""

import json
import os
from contextlib import closing

import pytest

import forked
from pmlkit.cleaning import clean
from pmlkit.cleaning.audit.answers import WORDS
from pmlkit.cleaning.review import open_review
from pmlkit.cleaning.review.outputs import apply_review
from pmlkit.cleaning.review.session import Review
from pmlkit.cleaning.review.store import AnswerStore
from review_fixtures import IDLE, answered, open_view, served, until


def test_answers_by_keyboard(page, review):
    for number, key in enumerate(["a", "x", "Space"], start=1):
        before = page.inner_text("#question")
        page.keyboard.press(key)
        answered(page, number)
        assert before.startswith("Is ")
    assert [event.answer for event in review.store.standing()] == ["right", "wrong", "unsure"]
    assert review.audit.n_answers == 3
    assert page.locator("#recent li").count() == 3


def test_undo_brings_the_card_back(page, review):
    question, row = page.inner_text("#question"), page.inner_text("#row-name")
    page.keyboard.press("x")
    answered(page, 1)
    page.keyboard.press("Backspace")
    answered(page, 0)
    assert (page.inner_text("#question"), page.inner_text("#row-name")) == (question, row)
    assert review.store.standing() == []
    assert len(review.store.events()) == 2


def test_a_recent_answer_can_be_changed(page, review):
    page.keyboard.press("x")
    answered(page, 1)
    page.select_option("#recent select", "right")
    until(page, "document.querySelector('#announce').textContent === 'Changed.'")
    assert [event.answer for event in review.store.standing()] == ["right"]


def test_digits_toggle_other_labels_and_f_flags(page, review):
    place = page.eval_on_selector_all(
        "#row-labels li", "items => items.findIndex(item => !item.classList.contains('suspect'))"
    )
    assert place >= 0
    page.keyboard.press(str(place + 1))
    page.wait_for_selector("#row-labels .answer-wrong")
    page.keyboard.press(str(place + 1))
    page.wait_for_selector("#row-labels .answer-right")
    page.keyboard.press("f")
    page.wait_for_selector("#flag[aria-pressed=true]")
    kinds = [(event.action, event.kind) for event in review.store.events()]
    assert kinds == [("answer", "toggle"), ("undo", "toggle"), ("answer", "toggle"), ("flag", "flag")]


def test_many_rows_of_a_label_at_once(page, review):
    page.click("nav button[data-view=labels]")
    page.wait_for_selector("#label-grid li")
    for box in page.locator("#label-grid input").all()[:4]:
        box.check()
    assert page.inner_text("#bulk-count") == "4 selected"
    page.click("[data-bulk=wrong]")
    until(page, "document.querySelector('#announce').textContent.startsWith('4 rows')")
    assert len(review.store.standing()) == 4
    assert {event.kind for event in review.store.standing()} == {"bulk"}
    page.click("#bulk-undo")
    until(page, "document.querySelector('#announce').textContent.startsWith('4 answers')")
    assert review.store.standing() == []


def test_all_rows_of_a_label_at_once(page, review):
    page.click("nav button[data-view=labels]")
    page.wait_for_selector("#label-grid li")
    page.click("#bulk-every")
    number = int(page.inner_text("#bulk-count").split()[0])
    assert number > page.locator("#label-grid li").count()
    page.click("[data-bulk=wrong]")
    until(page, f"document.querySelector('#announce').textContent.startsWith('{number} rows')")
    assert review.audit.n_answers == number


def test_a_flagged_question_is_found_again(page, review):
    question, row = page.inner_text("#question"), page.inner_text("#row-name")
    page.keyboard.press("f")
    page.wait_for_selector("#flag[aria-pressed=true]")
    page.keyboard.press("Space")
    answered(page, 1)
    page.click("nav button[data-view=results]")
    page.click("#flagged button >> text=Look")
    until(page, f"document.querySelector('#row-name').textContent === {json.dumps(row)}")
    assert page.inner_text("#question") == question
    page.keyboard.press("x")
    answered(page, 2)
    page.click("nav button[data-view=results]")
    page.click("#flagged button >> text=Unflag")
    until(page, "document.querySelector('#flagged').textContent.startsWith('None')")
    assert [event.kind for event in review.store.standing()] == ["audit", "selection"]


def test_a_click_leaves_the_keys_as_they_were(page, review):
    """Space after a click on Right must mean unsure, not Right once more."""
    page.click("[data-answer=right]")
    answered(page, 1)
    page.keyboard.press("Space")
    answered(page, 2)
    assert [event.answer for event in review.store.standing()] == ["right", "unsure"]


def test_a_held_key_and_a_double_click_answer_one_question(page, review):
    for _ in range(3):
        page.keyboard.down("x")
        until(page, IDLE)
    page.keyboard.up("x")
    answered(page, 1)
    page.dblclick("[data-answer=right]")
    answered(page, 2)
    page.wait_for_timeout(200)
    assert [event.answer for event in review.store.standing()] == ["wrong", "right"]


@pytest.mark.parametrize("width", [1400, 1000, 400])
def test_the_evidence_stays_in_its_place(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    places, n_labels = set(), set()
    for n_answers in range(12):
        answered(page, n_answers)
        places.add(page.evaluate("document.querySelector('#for-title').offsetTop"))
        n_labels.add(page.locator("#row-labels li").count())
        page.keyboard.press("x")
    assert len(n_labels) > 1
    assert len(places) == 1


def test_a_filter_chooses_and_says_that_it_is_no_sample(page, review):
    label = review.result.label_names[3]
    page.click("#filter-box summary")
    page.select_option("#filter-label", label)
    until(page, f"document.querySelector('#question strong')?.textContent === {label!r}")
    assert "no random sample" in page.inner_text("#filter-note")
    page.keyboard.press("Escape")
    page.click("[data-answer=wrong]")
    answered(page, 1)
    assert review.store.standing()[0].kind == "selection"
    page.click("#filters button[type=reset]")
    until(page, "document.querySelector('#kind').textContent === 'random sample'")


def test_confidence_and_words_filter_the_cards(page, review):
    page.click("#filter-box summary")
    page.select_option("#filter-confidence", "0.25")
    until(page, "document.querySelector('#kind').textContent === 'your selection'")
    n_doubtful = int(page.inner_text("#filter-note").split()[0])
    assert n_doubtful == (review.result.confidence[review.result.rows, review.result.Y.indices] <= 0.25).sum()
    assert int(page.inner_text("#row-labels .suspect .value").split()[0]) <= 25
    page.fill("#filter-text", "ROW 27")
    until(page, "document.querySelector('#row-name').textContent.includes('27')")
    assert 0 < int(page.inner_text("#filter-note").split()[0]) < n_doubtful
    page.fill("#filter-text", "no such row")
    until(page, "document.querySelector('#question').textContent === 'No unanswered label passes the filter.'")
    assert not page.is_visible("[data-answer=right]")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    page.click("#filters button[type=reset]")
    until(page, "document.querySelector('#kind').textContent === 'random sample'")
    assert page.is_visible("[data-answer=right]")
    assert review.store.standing() == []


def test_a_disagreement_of_two_people_is_settled(page, review):
    row, label = int(page.inner_text("#row-name").removeprefix("row ")), page.inner_text("#question strong")
    page.keyboard.press("x")
    answered(page, 1)
    review.bulk("another", {"rows": [row], "label": label, "answer": "right"})
    page.click("nav button[data-view=results]")
    page.wait_for_selector("#disagreements >> text=another")
    page.click("#disagreements button >> text=wrong")
    until(page, "document.querySelector('#disagreements').textContent.startsWith('None')")
    assert [event.kind for event in review.store.standing()][-1] == "settled"
    assert review.audit.verdict[review.replay.position(row, label)] == WORDS.index("wrong")


def test_learning_is_seen_and_the_page_stays_usable(browser, strips_result, tmp_path):
    with closing(open_review(strips_result, tmp_path / "r.sqlite")) as server:
        server.start()
        page = browser.new_context().new_page()
        page.goto(server.address)
        until(page, IDLE)
        assert page.is_disabled("#learn")
        page.keyboard.press("x")
        answered(page, 1)
        page.click("#learn")
        page.keyboard.press("a")
        answered(page, 2)
        until(page, "document.querySelector('#learn-note').textContent.startsWith('Confidences')")
        assert page.is_hidden("#learn-progress")
        assert page.is_enabled("#learn")
        page.context.close()


def test_pictures_help_and_downloads(page):
    until(page, "document.querySelector('#row img')?.naturalWidth > 0")
    page.keyboard.press("?")
    assert page.locator("#help").get_attribute("open") is not None
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    answered(page, 1)
    page.click("nav button[data-view=results]")
    with page.expect_download() as download:
        page.click("text=Answers (CSV)")
    lines = download.value.path().read_text().splitlines()
    assert lines[0].startswith("row,id,label,answer,who,when")
    assert ",wrong," in lines[1]


def test_suggestions_are_answered(page, review):
    page.click("nav button[data-view=missing]")
    page.wait_for_selector("#missing-list button")
    page.click("#missing-list button >> nth=0")
    page.wait_for_selector("#missing-list .answered")
    event = review.store.standing()[0]
    assert (event.kind, event.answer) == ("missing", "right")
    assert review.audit.n_answers == 0


def test_two_people_at_once(browser, server, review):
    pages = []
    for _ in range(2):
        page = browser.new_context().new_page()
        page.goto(server.new_address())
        until(page, IDLE)
        pages.append(page)
    shown = [(page.inner_text("#row-name"), page.inner_text("#question")) for page in pages]
    assert shown[0] != shown[1]
    for key in "xaaa":
        for page in pages:
            page.evaluate("document.querySelector('#announce').textContent = ''")
            page.keyboard.press(key)
        for page in pages:
            until(page, "document.querySelector('#announce').textContent.endsWith('right?')")
    assert len(review.store.standing()) == review.audit.n_answers == 8
    assert len({event.who for event in review.store.standing()}) == 2
    for page in pages:
        page.context.close()


_SMALL_DISK = """
import resource, signal, sys
from pmlkit.cleaning import clean
from pmlkit.cleaning.review import review
from pmlkit.data import load_digit_strips
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
strips = load_digit_strips(100, random_state=0)
result = clean(strips.X, strips.Y, label_names=strips.label_names, media=strips.media)
server = review(result, sys.argv[1], open_browser=False)
before = resource.getrlimit(resource.RLIMIT_FSIZE)
print(server.address, flush=True)
for line in sys.stdin:  # how large a file may be from now on, or nothing for as large as before
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(line), before[1]) if line.strip() else before)
    print("done", flush=True)
server.close()
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of file sizes are a POSIX feature")
def test_a_full_disk_refuses_an_answer_and_loses_none(browser, tmp_path):
    path = tmp_path / "r.sqlite"
    server = forked.Popen([path], code=_SMALL_DISK, stdin=forked.PIPE, stdout=forked.PIPE, text=True)

    def limit(size):
        server.stdin.write(f"{size}\n")
        server.stdin.flush()
        assert server.stdout.readline() == "done\n"

    page = browser.new_context().new_page()
    page.goto(server.stdout.readline().strip())
    until(page, IDLE)
    for number in (1, 2, 3):
        page.keyboard.press("x")
        answered(page, number)
    limit(1)
    question = page.inner_text("#question")
    page.keyboard.press("a")
    page.wait_for_selector("#offline:visible")
    assert "could not be written" in page.inner_text("#offline")
    assert page.inner_text("#question") == question
    assert page.inner_text("#facts dd").startswith("3")
    limit("")
    page.keyboard.press("a")
    answered(page, 4)
    assert page.is_hidden("#offline")
    page.context.close()
    server.kill()
    server.wait()
    with AnswerStore(path) as store:
        assert [event.answer for event in store.standing()] == ["wrong", "wrong", "wrong", "right"]


def test_a_hostile_label_is_text(browser, strips, tmp_path):
    names = [
        "<script>document.title='bad'</script>",
        "<img src=x onerror=document.title='bad'>",
        *strips.label_names[2:],
    ]
    texts = [f"<b>row {i}</b><script>document.title='bad'</script>" for i in range(strips.n_samples)]
    result = clean(strips.X, strips.Y, label_names=names, media=texts)
    with AnswerStore(tmp_path / "r.sqlite") as store, served(Review(result, store)) as server:
        page = browser.new_context().new_page()
        page.goto(server.new_address())
        until(page, IDLE)
        page.click("#filter-box summary")
        page.select_option("#filter-label", names[0])
        until(page, "document.querySelector('#question strong')?.textContent.startsWith('<script>')")
        assert page.inner_text("#row").startswith("<b>row")
        for view in ("labels", "missing", "results"):
            open_view(page, view)
        assert page.title() == "Review · Review"
        assert page.locator("main script, main b script").count() == 0
        page.context.close()


def test_a_simulated_review_ends_in_the_engines_certificate(page, review, strips):
    """Answers from the truth through the page; what the page promises is what the engine certifies."""
    truth = strips.truth.toarray()
    number = {name: k for k, name in enumerate(strips.label_names)}
    for count in range(1, 301):
        row = int(page.inner_text("#row-name").removeprefix("row "))
        label = page.inner_text("#question strong")
        page.keyboard.press("a" if truth[row, number[label]] else "x")
        answered(page, count)
    reference = review.result.audit()
    for event in review.store.standing():
        question = reference.next()
        assert (question.row, question.label, question.kind) == (event.row, event.label, event.kind)
        reference.answer(question, event.answer)
    assert reference.certificate.cells.tolist() == review.audit.certificate.cells.tolist()
    assert str(reference.certificate) == str(review.audit.certificate)
    text = json.dumps(str(reference.certificate))
    until(page, f"document.querySelector('#promise .note').textContent === {text}")
    assert page.inner_text("#may-go") == str(len(reference.certificate.cells))
    applied = apply_review(review.store.path, strips.X, strips.Y, strips.label_names, check=False)
    assert applied.promise == str(reference.certificate)
    assert (review.replay.cleaned != applied.Y).nnz == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_no_serious_accessibility_finding(browser, server, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(server.new_address())
    until(page, IDLE)
    found = []
    for view in ("cards", "labels", "missing", "results"):
        open_view(page, view)
        found += [
            (view, problem["id"], [node["html"][:120] for node in problem["nodes"]])
            for problem in axe.run(page).response["violations"]
            if problem["impact"] in ("serious", "critical")
        ]
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.keyboard.press("?")
    found += [
        ("help", problem["id"])
        for problem in axe.run(page).response["violations"]
        if problem["impact"] in ("serious", "critical")
    ]
    context.close()
    assert found == []
