"""A review without its web server."""

import base64
import dataclasses
import io
import json
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse

from pmlkit import open_table
from pmlkit.cleaning import clean
from pmlkit.cleaning.review import session
from pmlkit.cleaning.review.cards import Cards
from pmlkit.cleaning.review.exchange import EXPORTS, export_suspects
from pmlkit.cleaning.review.outputs import apply_review, stored_certificate
from pmlkit.cleaning.review.panel import estimates
from pmlkit.cleaning.review.session import Review
from pmlkit.cleaning.review.store import AnswerStore, Event
from pmlkit.data import load_digit_strips
from pmlkit.exceptions import DataError
from post_tables import TOPICS, make_posts, write_posts
from refused import refused


def test_the_stored_certificate_follows_every_answer(review, strips):
    """What `pmlkit apply` promises must be what the audit promises now, also right after an answer is taken back."""
    truth = strips.truth.toarray()
    number = {name: k for k, name in enumerate(strips.label_names)}
    while review.audit.certificate is None and review.audit.n_answers < 500:
        card = review.card("ann", {})["card"]
        said = "right" if truth[card["row"], number[card["label"]]] else "wrong"
        cell = {name: card[name] for name in ("row", "label", "kind")}
        review.answer("ann", {**cell, "answer": said, "client": str(review.audit.n_answers)})
    assert stored_certificate(review.store, strips.Y.nnz)["cells"] == review.audit.certificate.cells.tolist()
    n_undone = 0
    while review.audit.certificate is not None:
        review.undo("ann", {"client": f"undo {n_undone}"})
        n_undone += 1
    assert 0 < n_undone < 500
    assert stored_certificate(review.store, strips.Y.nnz) == {}


def test_a_certificate_older_than_the_last_answer_is_refused(review, strips):
    """A server that is killed between an answer and its certificate must not leave a promise that was taken back."""
    card = review.card("ann", {})["card"]
    review.answer("ann", {"row": card["row"], "label": card["label"], "kind": card["kind"], "answer": "wrong"})
    assert stored_certificate(review.store, strips.Y.nnz) == {}
    review.store.append([Event("ann", "answer", "selection", card["row"], card["label"], "right")])
    with pytest.raises(DataError, match="before the last answer .* was counted"):
        apply_review(review.store.path, strips.X, strips.Y, strips.label_names, check=False)
    reopened = Review(review.result, review.store)
    assert reopened.audit.n_answers == 2
    assert apply_review(review.store.path, strips.X, strips.Y, strips.label_names, check=False).n_answers == 2


def test_an_answer_counts_although_its_certificate_cannot_be_stored(review, monkeypatch, caplog):
    def full(**_):
        raise DataError("disk full")

    monkeypatch.setattr(review.store, "set", full)
    card = review.card("ann", {})["card"]
    given = {"row": card["row"], "label": card["label"], "kind": card["kind"], "answer": "wrong"}
    assert review.answer("ann", given)["state"]["answers"] == 1
    assert "certificate is not stored" in caplog.text


@pytest.fixture
def mails(tmp_path):
    """A table with two spellings of one label, and its review."""
    path = tmp_path / "mails.csv"
    rows = make_posts(120)
    for i, row in enumerate(rows):
        row[2][:] = ["Music" if name == "music" and i % 3 else name for name in row[2]]
    write_posts(rows, path)
    table = open_table(path, labels="tags", text="body", ignore="truth")
    with AnswerStore(tmp_path / "r.sqlite") as store:
        yield table, Review(clean(table), store, table=table)


def test_added_and_merged_labels_are_written_by_the_page_and_by_apply(mails, tmp_path):
    table, review = mails
    names = review.results("ann", {})["names"]
    assert [(pair["one"], pair["other"], pair["into"]) for pair in names] == [("Music", "music", None)]
    suggested = review.missing_rows("ann", {})["rows"][:3]
    for row, said in zip(suggested, ("right", "wrong", "right"), strict=True):
        review.answer_missing("ann", {"row": row["row"], "label": row["label"], "answer": said})
    taken_back = {"row": suggested[2]["row"], "label": suggested[2]["label"], "answer": None}
    review.answer_missing("ann", taken_back)
    review.merge("ann", {"label": "Music", "into": "music", "answer": "right"})
    with pytest.raises(DataError, match="already"):
        review.merge("ann", {"label": "music", "into": "Music", "answer": "right"})
    assert review.results("ann", {})["names"][0]["into"] == "music"
    assert review.audit.n_answers == 0

    applied = apply_review(review.store.path, table.X, table.Y, table.label_names, check=False)
    added = (suggested[0]["row"], suggested[0]["label"])
    assert (applied.added, applied.merged) == ([added], {"Music": "music"})
    table.write(tmp_path / "applied.csv", applied.Y)
    data, name, _ = review.download("table")
    assert name == "mails-cleaned.csv"
    assert data == (tmp_path / "applied.csv").read_bytes()
    old, new = ([line.split(",") for line in text.decode().splitlines()] for text in (table.path.read_bytes(), data))
    for i, (before, after) in enumerate(zip(old[1:], new[1:], strict=True)):
        expected = {tag.lower() for tag in before[2].split(";")} | ({added[1].lower()} if i == added[0] else set())
        assert set(after[2].split(";")) == expected
        assert (before[:2], before[3:]) == (after[:2], after[3:])


@pytest.mark.parametrize("ending", ["parquet", "arff", "jsonl"])
def test_added_labels_are_written_in_other_formats(tmp_path, ending):
    path = tmp_path / f"posts.{ending}"
    _, labels, _, text = write_posts(make_posts(120), path)
    options = {"labels": labels, "text": text, **({} if ending == "arff" else {"ignore": "truth"})}
    table = open_table(path, **options)
    with AnswerStore(tmp_path / "r.sqlite") as store:
        review = Review(clean(table), store, table=table)
        suggested = review.missing_rows("ann", {})["rows"][0]
        review.answer_missing("ann", {"row": suggested["row"], "label": suggested["label"], "answer": "right"})
        data, name, _ = review.download("table")
        applied = apply_review(store.path, table.X, table.Y, table.label_names, check=False)
    (tmp_path / name).write_bytes(data)
    again = open_table(tmp_path / name, **options)
    difference = (again.Y.toarray() - table.Y.toarray()).tolist()
    place = (suggested["row"], table.label_names.index(suggested["label"]))
    assert difference[place[0]].pop(place[1]) == 1
    assert not any(map(any, difference))
    assert (again.Y != applied.Y).nnz == 0
    assert again.cells("body") == table.cells("body")


def test_one_decision_for_all_rows_of_a_search(mails):
    _, review = mails
    total = review.label_rows("ann", {"label": "cook", "text": "word1"})["total"]
    said = review.bulk("ann", {"label": "cook", "text": "word1", "all": True, "answer": "wrong", "client": "one"})
    assert 0 < said["n_rows"] == total == review.audit.n_answers
    assert review.undo("ann", {"bulk": True, "client": "two"})["n_undone"] == total
    assert review.audit.n_answers == 0


def test_the_panel_says_what_more_answers_bring_and_when_it_is_enough(store):
    strips = load_digit_strips(60, random_state=0)
    review = Review(clean(strips.X, strips.Y, label_names=strips.label_names), store)
    truth, number = strips.truth.toarray(), {name: k for k, name in enumerate(strips.label_names)}
    said = [review.state("ann", {})["state"]["next_gain"]]
    while (card := review.card("ann", {})["card"]) is not None:
        given = {"row": card["row"], "label": card["label"], "kind": card["kind"], "client": str(len(said))}
        right = truth[card["row"], number[card["label"]]]
        review.answer("ann", {**given, "answer": "right" if right else "wrong"})
        said.append(estimates(review.audit)["next_gain"])
    assert said[0].startswith("Next 50 answers: about ")
    assert said[-1].startswith("No longer worth it")
    assert review.audit.verdict.all()


def test_the_panel_tells_which_set_is_tested_after_a_certificate(review, strips):
    for _ in range(400):
        card = review.card("ann", {})["card"]
        is_right = strips.truth[card["row"], strips.label_names.index(card["label"])]
        review.answer("ann", {**card, "answer": "right" if is_right else "wrong"})
        told = estimates(review.audit)
        if told["certificate"] is not None and told["testing"] is not None:
            break
    assert told["test_note"].startswith(f"Testing {review.audit.under_test['size']:,} labels: about ")
    assert told["promise"].startswith("Of the ")


def test_of_very_many_rows_the_least_likely_are_decided(mails, monkeypatch):
    _, review = mails
    monkeypatch.setattr(session, "_MAX_BULK", 5)
    shown = review.label_rows("ann", {"label": "cook"})
    assert shown["most"] == 5 < shown["open"]
    assert review.bulk("ann", {"label": "cook", "all": True, "answer": "wrong", "client": "one"})["n_rows"] == 5
    assert [e.row for e in review.store.standing()] == [row["row"] for row in shown["rows"][:5]]
    with pytest.raises(DataError, match="between 1 and 5 rows"):
        review.bulk("ann", {"label": "cook", "rows": [row["row"] for row in shown["rows"][:6]], "answer": "wrong"})


def test_the_next_card_does_not_wait_for_long_estimates(review, monkeypatch):
    """The page then asks for the state once more, and gets estimates of all answers."""
    monkeypatch.setattr(session, "_ESTIMATE_SECONDS", 0.0)
    review._estimate_seconds = 0.0
    seen = []
    monkeypatch.setattr(session, "estimates", lambda audit: seen.append(audit.n_answers) or {"promise": len(seen)})
    card = review.card("ann", {})["card"]
    given = {"row": card["row"], "label": card["label"], "kind": card["kind"], "answer": "wrong"}
    assert not review.answer("ann", given)["state"]["is_behind"]
    review._estimate_seconds, review._facts = 1.0, (*review._facts[:1], 0.0, *review._facts[2:])
    said = review.answer("ann", given)["state"]
    assert (said["is_behind"], said["promise"], said["answers"]) == (True, 1, 2)
    said = review.state("ann", {})["state"]
    assert (said["is_behind"], said["promise"]) == (False, 2)
    assert seen == [1, 2]


def test_the_room_of_a_card_follows_the_length_of_texts(strips_result):
    for texts, room in (("short", "short-rows"), ("a text " * 60, ""), ("a text " * 600, "long-rows")):
        result = dataclasses.replace(strips_result, media=[texts] * strips_result.Y.shape[0])
        assert Cards(result).room == room
    assert Cards(strips_result).room == ""
    for n_features, room in ((3, "short-rows"), (20, "")):
        assert Cards(dataclasses.replace(strips_result, media=None, X=strips_result.X[:, :n_features])).room == room


@pytest.mark.parametrize(("sizes", "n_lines"), [([1] * 30, 2), ([1] * 20 + [4] * 10, 4), ([9] * 30, 5), ([0] * 30, 2)])
def test_the_list_of_labels_has_room_for_nine_rows_in_ten(strips_result, sizes, n_lines):
    Y = sparse.csr_array([[int(k < n) for k in range(10)] for n in sizes])
    assert Cards(dataclasses.replace(strips_result, Y=Y)).n_label_lines == n_lines


def test_a_question_that_is_asked_again_does_not_show_the_earlier_answer(review):
    for i in range(60):
        card = review.card("ann", {})["card"]
        suspect = next(entry for entry in card["labels"] if entry["suspect"])
        cell = review.replay.position(card["row"], card["label"])
        if card["kind"] == "repeat":
            break
        given = {"row": card["row"], "label": card["label"], "kind": card["kind"], "client": str(i)}
        review.answer("ann", {**given, "answer": "wrong" if i % 2 else "right"})
    assert card["kind"] == "repeat"
    assert review.audit.probability[cell] in (0.0, 1.0)
    assert suspect["answer"] is None
    assert suspect["confidence"] == pytest.approx(1.0 - review.result.doubt[cell])


def test_what_was_shown_is_kept(review):
    card = review.card("ann", {})["card"]
    review.answer("ann", {"row": card["row"], "label": card["label"], "kind": card["kind"], "answer": "wrong"})
    shown = review.store.events()[0].shown
    confidence = next(entry["confidence"] for entry in card["labels"] if entry["suspect"])
    assert shown["confidence"] == pytest.approx(confidence, abs=1e-4)
    assert shown["similar_with"] == [row["row"] for row in card["similar_with"]]


def test_learning_tells_its_steps(strips_result, store):
    seen = []
    done = threading.Event()

    def refit(answers, on_progress):
        def watch(done, total):
            on_progress(done, total)
            seen.append(review.state("ann", {})["state"]["learning"]["text"])

        names = strips_result.label_names
        found = clean(strips_result.X, strips_result.Y, verified=answers, label_names=names, on_progress=watch)
        seen.append(review.state("ann", {})["state"]["learning"])
        done.set()
        return found

    review = Review(strips_result, store, refit=refit)
    card = review.card("ann", {})["card"]
    review.answer("ann", {"row": card["row"], "label": card["label"], "kind": card["kind"], "answer": "wrong"})
    review.learn("ann", {})
    assert done.wait(120)
    while review.state("ann", {})["state"]["learning"] is not None:
        time.sleep(0.01)
    assert "Refitting with 1 answer:" in seen[0]
    if hasattr(sklearn, "callback"):
        assert 0.5 < seen[-1]["share"] < 1.0
    assert review.state("ann", {})["state"]["learned"].startswith("Confidences")


def test_a_filter_goes_by_the_confidence_that_is_shown(review, strips_result):
    assert review.card("ann", {"confidence": "0.5"})["card"] is not None
    review._take_result(dataclasses.replace(strips_result, doubt=np.zeros_like(strips_result.doubt)))
    assert review.card("ann", {"confidence": "0.5"})["card"] is None


@pytest.fixture
def photos(tmp_path):
    """A table of image files."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    lines = ["file,tags"]
    for i in range(60):
        colours = [c for c in range(3) if rng.random() < 0.6] or [0]
        pixels = np.full((90, 120, 3), 255, dtype=np.uint8)
        for c in colours:
            pixels[:, 40 * c : 40 * c + 40] = np.eye(3)[c] * 200
        image.fromarray(pixels).save(folder / f"{i}.png")
        lines.append(f"{i}.png,{';'.join('rgb'[c] for c in {*colours, int(rng.integers(3))})}")
    (tmp_path / "photos.csv").write_text("\n".join(lines) + "\n")
    return open_table(tmp_path / "photos.csv", labels="tags", images=("file", folder)), folder


def test_image_files_are_shown_and_none_outside_their_folder(photos, store, tmp_path):
    image = pytest.importorskip("PIL.Image")
    table, folder = photos
    review = Review(clean(table), store, table=table)
    card = review.card("ann", {})["card"]
    assert card["content"]["image"] == f"/api/picture?row={card['row']}"
    data, kind = review.picture({"row": str(card["row"])})
    shown = image.open(io.BytesIO(data))
    assert (kind, shown.size) == ("image/png", (120, 90))
    assert all("small=1" in row["image"] for row in card["similar_with"] + card["similar_without"])

    secret = tmp_path / "secret.png"
    image.new("RGB", (5, 5)).save(secret)
    (folder / "0.png").unlink()
    (folder / "0.png").symlink_to(secret)  # a file that was fine when the table was read
    with pytest.raises(DataError, match="leads out of"):
        review.picture({"row": "0"})
    (folder / "1.png").write_bytes(b"<svg onload='alert(1)'/>")
    with pytest.raises(DataError, match="cannot be read"):
        review.picture({"row": "1"})
    with refused(row=99):
        review.picture({"row": "99"})


def test_a_picture_that_takes_too_much_memory_is_refused(photos, store):
    image = pytest.importorskip("PIL.Image")
    table, folder = photos
    review = Review(clean(table), store, table=table)
    image.new("1", (12_000, 12_000)).save(folder / "2.png")  # a few kilobytes that unpack to 412 MB
    assert (folder / "2.png").stat().st_size < 100_000
    with pytest.raises(DataError, match="of memory, more than the"):
        review.picture({"row": "2"})


def test_pictures_travel_in_the_tasks_of_other_tools(photos, tmp_path):
    image = pytest.importorskip("PIL.Image")
    table, _ = photos
    result = clean(table)
    for tool in EXPORTS:
        target = tmp_path / tool
        assert export_suspects(result, target, tool, n_suspects=3, table=table) == 3
        if tool == "huggingface":
            assert "image" not in pd.read_parquet(target).columns
            continue
        text = target.read_text()
        task = json.loads(text.splitlines()[0] if tool == "prodigy" else text)
        task = task if tool == "prodigy" else task[0]["data" if tool == "label-studio" else "fields"]
        kind, _, data = task["image"].partition(",")
        assert kind == "data:image/png;base64"
        assert image.open(io.BytesIO(base64.b64decode(data))).size == (120, 90)


def test_a_notebook_sees_the_address_and_the_answers(strips_result, tmp_path):
    server = strips_result.review(tmp_path / "r.sqlite", open_browser=False, title="Digits")
    assert server.address in repr(server)
    assert server.address in server._repr_html_()
    card = server.review.card("ann", {})["card"]
    server.review.answer("ann", {"row": card["row"], "label": card["label"], "kind": card["kind"], "answer": "wrong"})
    threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
    answers = server.wait()
    assert answers.frame[["row", "label", "answer"]].values.tolist() == [[card["row"], card["label"], "wrong"]]
    assert len(server.answers) == 1
    assert "not running" in repr(server)
    assert server.wait().frame.equals(answers.frame)


def test_embeddings_show_the_columns_whole_and_find_their_words(tmp_path, store):
    rows = [(name, body + " and so on" * 40, *tags) for name, body, *tags in make_posts(120)]
    write_posts(rows, tmp_path / "t.csv")
    E = np.array([[body.count(topic) for topic in TOPICS] for _, body, *_ in rows], dtype=float)
    np.save(tmp_path / "e.npy", E)
    table = open_table(tmp_path / "t.csv", labels="tags", ignore="truth", embeddings=tmp_path / "e.npy")
    review = Review(clean(table), store, table=table)
    card = review.card("ann", {"text": "word3 SO"})["card"]
    assert ["word3" in rows[card["row"]][1], *card["content"]["features"]] == [True, ("body", rows[card["row"]][1], "")]
    brief = [row["features"][0][1] for row in card["similar_with"] + card["similar_without"]]
    assert {(len(text), text[-1]) for text in brief} == {(221, "…")}


def test_numbers_and_categories_that_speak_are_named(tmp_path, store):
    rng = np.random.default_rng(0)
    lines = ["size,colour,tags"]
    for i in range(120):
        tags = ["big"] if i % 2 else ["small"]
        lines.append(f"{(i % 2) * 5 + rng.normal():.2f},{'red' if i % 2 else 'blue'},{';'.join([*tags, 'any'])}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    table = open_table(tmp_path / "t.csv", labels="tags")
    review = Review(clean(table), store, table=table)
    content = review.card("ann", {"row": "1", "label": "big"})["card"]["content"]
    size = table.cells("size")[1]
    assert {name: (value, side) for name, value, side in content["features"]} == {
        "colour": ("red", "for"), "size": (str(size), "for"),
    }  # fmt: skip
