"""Tables of answers: what is read, what is refused and how, and cleaning with them."""

import numpy as np
import pandas as pd
import pytest

from pmlkit.cleaning import clean
from pmlkit.cleaning.audit import Answers
from pmlkit.cleaning.audit.answers import RIGHT, UNKNOWN, UNSURE, WRONG, error_rate, fingerprint, settled
from pmlkit.data import load_digit_strips
from pmlkit.exceptions import DataError, PMLWarning
from refused import refused

NAMES = [f"row{i:03d}" for i in range(200)]


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(200, random_state=3)


@pytest.fixture(scope="module")
def result(strips):
    return clean(strips.X, strips.Y, row_names=NAMES)


def line(result, cell, answer="wrong", **more):
    row = int(result.rows[cell])
    return {"row": row, "label": result.label_names[result.Y.indices[cell]], "answer": answer, **more}


def test_answers_are_found_by_row_or_by_id(result):
    cells = result.order[[0, 5, 9]]
    words = ["wrong", "right", "unsure"]
    by_row = pd.DataFrame([line(result, c, w) for c, w in zip(cells, words, strict=True)])
    by_id = by_row.assign(id=[NAMES[row] for row in by_row["row"]]).drop(columns="row")
    for frame in (by_row, by_id, by_id.assign(row=by_row["row"])):
        found, codes = Answers.from_frame(frame).cells(result.Y, result.label_names, result.row_names)
        assert found.tolist() == cells.tolist()
        assert codes.tolist() == [WRONG, RIGHT, UNSURE]


def test_answers_are_written_and_read(result, tmp_path):
    audit = result.audit()
    for answer in ("wrong", "right", "unsure"):
        audit.answer(audit.next(), answer, who="ann", when="2026-01-01")
    path = tmp_path / "answers.csv"
    audit.answers.write(path)
    again = Answers.read(path)
    assert len(again) == 3
    assert (result.audit(answers=path).verdict == audit.verdict).all()
    semicolons = tmp_path / "other.csv"
    semicolons.write_text("﻿ID;Label;Answer\n" + "\n".join(
        f"{NAMES[row]};{label};{answer.upper()}" for row, label, answer in
        again.frame[["row", "label", "answer"]].astype({"row": int}).itertuples(index=False)
    ))  # fmt: skip
    assert (result.audit(answers=semicolons).verdict == audit.verdict).all()


def test_lines_without_an_answer_are_questions(result):
    frame = pd.DataFrame([line(result, result.order[0]), line(result, result.order[1], "")])
    assert len(Answers.from_frame(frame)) == 1


@pytest.mark.parametrize(
    ("frame", "column", "hint"),
    [
        ({"index": [1], "label": ["a"], "answer": ["wrong"]}, "id", "they are 'index', 'label', 'answer'. Is 'index' "
         "the id"),
        ({"row": [1], "tag": ["a"], "answer": ["wrong"]}, "label", "Is 'tag' the label"),
        ({"row": [1], "label": ["a"], "verdict": ["wrong"]}, "answer", "Rename it to 'answer'"),
        ({"post_id": [1], "tags": ["a"], "x": ["no"]}, "id", "'row' or 'id', 'label', 'answer', but they are "
         "'post_id', 'tags', 'x'. Is 'post_id' the id.* Is 'tags' the label.* Rename the one that holds the answer to "
         "'answer'"),
        ({"row": [1], "label": ["a"], "answer": ["worng"]}, "answer", "answer 1 is 'worng'.* Did you mean 'wrong'"),
    ],
)  # fmt: skip
def test_other_columns_are_named(frame, column, hint):
    with refused(hint, column=column):
        Answers.from_frame(pd.DataFrame(frame))


@pytest.mark.parametrize(
    ("change", "says", "parts"),
    [
        ({"row": 999}, None, {"column": "row", "row": 999}),
        ({"row": "x7"}, "'x7'", {"column": "row", "row": None}),
        ({"label": "label_33"}, "Did you mean 'label_3'", {"column": "label"}),
        ({"id": "row999"}, "'row999'", {"column": "id"}),
        ({"table": "0" * 16}, "fingerprint 0000000000000000", {"column": "table"}),
    ],
)
def test_answers_about_what_is_not_there(result, change, says, parts):
    frame = pd.DataFrame([{**line(result, result.order[0]), **change}])
    with refused(says, **parts):
        result.audit(answers=frame)


def test_ids_that_are_not_there_or_not_unique(strips, result):
    frame = pd.DataFrame([line(result, result.order[0])]).drop(columns="row")
    with refused("Did you mean", column="id"):
        result.audit(answers=frame.assign(id="rwo001"))
    with refused("no identifiers", column="id"):
        clean(strips.X, strips.Y).audit(answers=frame.assign(id="row001"))
    repeated = clean(strips.X, strips.Y, row_names=["same"] * 200)
    with refused("several rows", column="id"):
        repeated.audit(answers=frame.assign(id="same"))


def test_labels_that_a_row_does_not_have(result):
    absent = int(np.flatnonzero(result.Y[[7]].toarray()[0] == 0)[0])
    frame = pd.DataFrame([{"row": 7, "label": result.label_names[absent], "answer": "right"}])
    with refused(column="label", row=7):
        result.audit(answers=frame)


def test_files_that_are_not_there_or_not_answers(result, tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        result.audit(answers=tmp_path / "none.csv")
    with pytest.raises(ValueError, match="must be a DataFrame, the path of a CSV file"):
        result.audit(answers=[1, 2])


def test_the_fingerprint_tells_tables_apart(strips):
    names = [f"label_{k}" for k in range(10)]
    mine = fingerprint(strips.X, strips.Y, names)
    assert mine == fingerprint(strips.X.astype(np.float64), strips.Y, names)
    changed = strips.X.copy()
    changed[0, 0] += 1
    assert len({mine, fingerprint(changed, strips.Y, names), fingerprint(strips.X, strips.Y, names[::-1]),
                fingerprint(None, strips.Y, names), fingerprint(strips.X, strips.truth, names)}) == 5  # fmt: skip


def test_settled():
    assert settled([], "latest") == UNKNOWN
    assert settled([WRONG, RIGHT, UNSURE], "latest") == UNSURE
    assert settled([WRONG, UNSURE, WRONG, RIGHT], "majority") == WRONG
    assert settled([UNSURE, UNSURE, RIGHT], "majority") == RIGHT


def test_error_rates_from_disagreement():
    rate = error_rate(0, 50)
    assert rate == 0 == rate.low < rate.high < 0.04
    assert error_rate(50, 50) == 0.5


def test_clean_with_answers(strips, result):
    truth = strips.truth.toarray()
    wrong = truth[result.rows, result.Y.indices] == 0
    cells = result.order[np.random.default_rng(0).permutation(len(result.order))[:150]]
    frame = pd.DataFrame([line(result, c, "wrong" if wrong[c] else "right") for c in cells])
    learned = clean(strips.X, strips.Y, row_names=NAMES, verified=frame)
    assert (learned.known[cells] == np.where(wrong[cells], WRONG, RIGHT)).all()
    assert (learned.doubt[cells] == wrong[cells]).all()
    removed = learned.removable()
    assert removed[cells[wrong[cells]]].all()
    assert not removed[cells[~wrong[cells]]].any()
    cleaned = learned.cleaned(strips.Y).toarray()
    assert (cleaned[result.rows[cells], result.Y.indices[cells]] == ~wrong[cells]).all()
    # Closer to the truth on what nobody was asked about, and so is the rate.
    others = np.setdiff1d(result.order, cells)
    assert abs(learned.doubt[others] - wrong[others]).mean() < abs(result.doubt[others] - wrong[others]).mean()
    assert learned.overall_rate.low <= wrong[result.order].mean() <= learned.overall_rate.high
    assert (learned.before_answers.doubt == result.doubt).all()
    # An audit of it starts from the evidence, not from doubts that have seen the answers.
    assert (learned.audit(answers=frame).probability >= 0).all()
    assert learned.audit().result is learned.before_answers


def test_a_row_may_lose_all_its_labels(strips, result):
    row = int(result.rows[result.order[0]])
    mine = np.flatnonzero(result.rows == row)
    learned = clean(strips.X, strips.Y, verified=pd.DataFrame([line(result, c) for c in mine]))
    assert learned.cleaned(strips.Y).toarray()[row].sum() == 0


def test_probabilities_without_features_can_be_audited(strips, result):
    plain = clean(Y=strips.Y, pred_probs=np.clip(result.scores, 0.01, 0.99))
    audit = plain.audit()
    for _ in range(60):
        audit.answer(audit.next(), "right")
    assert audit.noise_rate_ < 0.3


def test_clear_pml_learns_from_answers(strips, result):
    from pmlkit import ClearPML

    truth = strips.truth.toarray()
    wrong = truth[result.rows, result.Y.indices] == 0
    cells = result.order[:60]
    answers = Answers.from_frame(pd.DataFrame([line(result, c, "wrong" if wrong[c] else "right") for c in cells]))
    verified = answers.matrix(strips.Y, result.label_names)
    assert sorted(verified.data.tolist()) == sorted(np.where(wrong[cells], -1, 1).tolist())
    model = ClearPML().fit(strips.X, strips.Y, verified=verified)
    confidence = model.label_confidence_.toarray()[result.rows[cells], result.Y.indices[cells]]
    assert (confidence[wrong[cells]] < 1e-6).all()
    assert (confidence[~wrong[cells]] > 1 - 1e-6).all()


def test_answers_that_contradict_are_listed_and_settled_as_the_user_says(strips, result):
    first, second = result.order[:2]
    frame = pd.DataFrame([
        line(result, first, "wrong", who="ann"), line(result, first, "wrong", who="bob"),
        line(result, first, "right", who="eve"), line(result, second, "wrong", who="ann"),
    ])  # fmt: skip
    label, row = frame["label"][0], NAMES[frame["row"][0]]
    listed = (
        rf"1 label was answered in different ways, and the {{}}: {label!r} of {row} \(wrong \(ann\), wrong \(bob\), "
    )
    with pytest.warns(PMLWarning, match=listed.format("latest answer counts")) as caught:
        latest = clean(strips.X, strips.Y, row_names=NAMES, verified=frame)
    assert caught[0].filename == __file__
    assert str(caught[0].message).endswith("Pass settle='majority' to let the majority decide.")
    with pytest.warns(PMLWarning, match=listed.format("majority counts")):
        majority = clean(strips.X, strips.Y, row_names=NAMES, verified=frame, settle="majority")
    assert np.flatnonzero(latest.removable()).tolist() == [second]
    assert np.flatnonzero(majority.removable()).tolist() == sorted([first, second])
    with pytest.warns(PMLWarning, match=rf"{label!r} of row {frame['row'][0]} \(wrong"):
        clean(strips.X, strips.Y, verified=frame)
    with pytest.raises(ValueError, match="settle must be 'latest' or 'majority', got 'first'"):
        clean(strips.X, strips.Y, verified=frame, settle="first")


def test_answers_that_tell_nothing_say_so_and_change_nothing(strips, result):
    frame = pd.DataFrame([line(result, cell, "unsure") for cell in result.order[:3]])
    with pytest.warns(PMLWarning, match="All answers are 'unsure': nothing is learned"):
        unsure = clean(strips.X, strips.Y, row_names=NAMES, verified=frame)
    with pytest.warns(PMLWarning, match="The answers are empty"):
        none = clean(strips.X, strips.Y, row_names=NAMES, verified=frame[:0])
    for found in (unsure, none):
        np.testing.assert_array_equal(found.doubt, result.doubt)
        assert found.noise_rate_.overall.high == result.noise_rate_.overall.high
    assert (unsure.known == UNSURE).sum() == 3
