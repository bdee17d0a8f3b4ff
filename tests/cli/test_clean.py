"""The command `clean`, and `fit` and `predict` on the columns of a table, as a user types them."""

import csv
import html
import json
import shlex

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from post_tables import TOPICS, make_posts

pytestmark = pytest.mark.usefixtures("eager")


@pytest.fixture(scope="module")
def posts():
    return make_posts()


@pytest.fixture
def posts_csv(posts, tmp_path):
    path = tmp_path / "posts.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\r\n")
        writer.writerow(["post_id", "body", "tags", "note"])
        writer.writerows([name, body, ";".join(given), 'say "é", twice'] for name, body, given, _ in posts)
    return path


def read_tags(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return [set(row["tags"].split(";")) for row in csv.DictReader(stream)]


def options(path):
    return (path, "--labels", "tags", "--sep", ";", "--text", "body")


def test_clean_removes_mostly_wrong_tags_and_touches_nothing_else(run, posts, posts_csv, tmp_path):
    before = posts_csv.read_bytes()
    out, log, page = tmp_path / "out.csv", tmp_path / "log.csv", tmp_path / "page.html"
    result = run(
        "clean", *options(posts_csv), "--option", "id=post_id", "-o", out, "--log", log, "--report", page, "--json"
    )
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert posts_csv.read_bytes() == before
    cleaned = read_tags(out)
    removed = [(i, tag) for i, (_, _, given, _) in enumerate(posts) for tag in set(given) - cleaned[i]]
    assert len(removed) == facts["removed"] > 20
    assert np.mean([tag not in posts[i][3] for i, tag in removed]) > 0.8
    assert all(cleaned)
    kept = before.splitlines(keepends=True)
    for old, new in zip(kept, out.read_bytes().splitlines(keepends=True), strict=True):
        assert old.split(b",")[:2] == new.split(b",")[:2]
        assert old.partition(b',"say')[2] == new.partition(b',"say')[2]
    with log.open(newline="", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert {(int(line["row"]), line["label"]) for line in lines} == set(removed)
    assert all(line["id"] == f"p{line['row']}" and "similar rows" in line["reasons"] for line in lines)
    assert "posts.csv" in page.read_text(encoding="utf-8")


def test_dry_run_writes_no_table(run, posts_csv, tmp_path):
    out = tmp_path / "out.csv"
    result = run("clean", *options(posts_csv), "-o", out, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "would remove" in result.stdout
    assert not out.exists()


def test_other_formats_give_the_same_labels(run, posts, posts_csv, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    out = tmp_path / "out.csv"
    assert run("clean", *options(posts_csv), "-o", out).exit_code == 0
    expected = read_tags(out)
    lines = tmp_path / "posts.jsonl"
    lines.write_text(
        "".join(json.dumps({"body": body, "tags": given}) + "\n" for _, body, given, _ in posts), encoding="utf-8"
    )
    packed = tmp_path / "posts.parquet"
    parquet.write_table(pa.table({"body": [p[1] for p in posts], "tags": [p[2] for p in posts]}), packed)
    flags = tmp_path / "flags.csv"
    flags.write_text(
        "body," + ",".join(f"t_{t}" for t in TOPICS) + "\n"
        + "".join(f"{body}," + ",".join(str(int(t in given)) for t in TOPICS) + "\n" for _, body, given, _ in posts)
    )  # fmt: skip
    assert run("clean", lines, "--labels", "tags", "--text", "body", "-o", tmp_path / "o.jsonl").exit_code == 0
    assert [set(json.loads(x)["tags"]) for x in (tmp_path / "o.jsonl").read_text().splitlines()] == expected
    assert run("clean", packed, "--labels", "tags", "--text", "body", "-o", tmp_path / "o.parquet").exit_code == 0
    assert [set(x) for x in parquet.read_table(tmp_path / "o.parquet")["tags"].to_pylist()] == expected
    result = run("clean", flags, "--labels", "t_*", "--text", "body", "-o", tmp_path / "o.csv")
    assert result.exit_code == 0, result.output
    with (tmp_path / "o.csv").open() as stream:
        found = [{t for t in TOPICS if row[f"t_{t}"] == "1"} for row in csv.DictReader(stream)]
    assert sum(a != b for a, b in zip(found, expected, strict=True)) <= 5  # another order of labels breaks ties


def test_embeddings_and_images_are_features(run, posts, tmp_path):
    rng = np.random.default_rng(0)
    table = tmp_path / "rows.csv"
    table.write_text("file,tags\n" + "".join(f"{p[0]}.png,{';'.join(p[2])}\n" for p in posts))
    truth = np.array([[t in p[3] for t in TOPICS] for p in posts])
    np.save(tmp_path / "e.npy", truth + 0.2 * rng.normal(size=truth.shape))
    assert (
        run("clean", table, "--labels", "tags", "--embeddings", tmp_path / "e.npy", "-o", tmp_path / "o.csv").exit_code
        == 0
    )
    cleaned = read_tags(tmp_path / "o.csv")
    removed = [tag in p[3] for p, kept in zip(posts, cleaned, strict=True) for tag in set(p[2]) - kept]
    assert len(removed) > 20
    assert np.mean(removed) < 0.2
    (tmp_path / "pictures").mkdir()
    for p, row in zip(posts, truth, strict=True):
        Image.fromarray(np.kron(row.reshape(2, 2), np.full((8, 8), 255)).astype(np.uint8)).save(
            tmp_path / "pictures" / f"{p[0]}.png"
        )
    page = tmp_path / "page.html"
    result = run(
        "clean",
        table,
        "--labels",
        "tags",
        "--images",
        f"file={tmp_path / 'pictures'}",
        "--report",
        page,
        "-o",
        tmp_path / "p.csv",
    )
    assert result.exit_code == 0, result.output
    assert "data:image/png" in page.read_text()
    np.save(tmp_path / "short.npy", np.zeros((3, 2)))
    result = run("clean", table, "--labels", "tags", "--embeddings", tmp_path / "short.npy", "--dry-run")
    assert "one row of numbers for each of the 240 rows" in result.stderr


def test_near_equal_and_rare_labels_are_said(run, posts_csv, tmp_path):
    text = (
        posts_csv.read_text(encoding="utf-8").replace("cook;", "Cook;", 20).replace('music,"say', 'music;odd,"say', 1)
    )
    posts_csv.write_text(text, encoding="utf-8", newline="")
    result = run("clean", *options(posts_csv), "--dry-run")
    assert "nearly the same name: 'Cook' and 'cook'" in result.stderr
    assert "--merge-labels" in result.stderr
    assert "too few rows to be judged, and left alone: 'odd'" in result.stderr
    merged = run("clean", *options(posts_csv), "--merge-labels", "-o", tmp_path / "m.csv")
    assert merged.exit_code == 0, merged.output
    assert not any("Cook" in tags for tags in read_tags(tmp_path / "m.csv"))
    facts = json.loads(run("clean", *options(posts_csv), "--merge-labels", "--dry-run", "--json").stdout)
    assert " --merge-labels " in facts["advice"]  # the command that asks about the same labels
    counted = run("info", *options(posts_csv), "--merge-labels")
    assert counted.exit_code == 0
    assert "Cook" not in counted.output.split("Labels\n")[1]


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        (["--labels", "tgas", "--text", "body", "-o", "{out}"], "Did you mean 'tags'?", 1),
        (["--text", "body", "-o", "{out}"], "Pass --labels its name", 1),
        (["--labels", "tags", "--text", "bdy", "-o", "{out}"], "Did you mean 'body'?", 1),
        (["--labels", "tags", "--text", "body"], "Nothing would be written", 2),
        (["--labels", "tags", "--text", "body", "-o", "{input}", "--force"], "never overwritten", 2),
        (["--labels", "tags", "--text", "body", "-o", "{out}.jsonl"], "must end in .csv", 2),
        (["--labels", "tags", "--text", "body", "-o", "-"], "must be a file, got '-'.", 2),
        (["--labels", "tags", "--sep", "|", "-o", "{out}"], "Pass --sep ';'", 1),
        (["--labels", "tags", "--precision", "90", "-o", "{out}"], "For 90 % write --precision 0.9.", 2),
        (["--labels", "tags", "--vectorizer", "max_word=9", "-o", "{out}"], "Did you mean 'max_words'?", 2),
        (["--labels", "tags", "--text", "body", "--precision", "0", "-o", "{out}"], "above 0", 2),
        (["--labels", "tags", "--option", "encoding=utf-16", "-o", "{out}"], "utf-16", 1),
    ],
)
def test_mistakes_get_one_sentence_and_no_file(run, posts_csv, tmp_path, words, sentence, code):
    before = posts_csv.read_bytes()
    filled = [word.format(out=tmp_path / "out.csv", input=posts_csv) for word in words]
    result = run("clean", posts_csv, *filled)
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert sentence in errors[0]
    assert result.exit_code == code
    assert posts_csv.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["posts.csv"]


def test_fit_and_predict_on_the_columns_of_a_table(run, posts, posts_csv, tmp_path):
    model = tmp_path / "model.skops"
    result = run("fit", *options(posts_csv), "-m", "CandidateLogistic", "-o", model)
    assert result.exit_code == 0, result.output
    new = tmp_path / "new.csv"
    new.write_text("when,body,who\n" + "".join(f"now,{body},{name}\n" for name, body, _, _ in posts[:40]))
    predicted = run("predict", model, new, "--option", "id=who")
    assert predicted.exit_code == 0, predicted.output
    lines = list(csv.DictReader(predicted.stdout.splitlines()))
    assert [line["id"] for line in lines] == [p[0] for p in posts[:40]]
    hits = [bool(set(line["labels"].split(";")) & set(p[3])) for line, p in zip(lines, posts[:40], strict=True)]
    assert np.mean(hits) > 0.9
    scored = run("predict", model, new, "--scores")
    assert scored.stdout.splitlines()[0] == "row,cook,music,sport,travel"
    new.write_text("text\nhello\n")
    missing = run("predict", model, new)
    assert "the model was fitted on columns that are not here: 'body'" in missing.stderr
    assert "leave --text" in run("predict", model, posts_csv, "--text", "body").stderr


def test_a_data_set_can_be_cleaned_too(run, small_npz, tmp_path):
    out = tmp_path / "out.npz"
    result = run("clean", small_npz, "-m", "CandidateLogistic", "--precision", "0.6", "-o", out)
    assert result.exit_code == 0, result.output
    from pmlkit.data import read

    assert read(out).Y.nnz <= read(small_npz).Y.nnz


def test_missing_labels_are_listed(run, posts, posts_csv, tmp_path):
    out = tmp_path / "missing.csv"
    assert run("clean", *options(posts_csv), "--missing", out).exit_code == 0
    with out.open(newline="", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert 0 < len(lines) <= 200
    assert list(lines[0]) == ["row", "id", "label", "score", "rank", "reasons"]
    assert all(line["label"] not in posts[int(line["row"])][2] for line in lines)
    scores = [float(line["score"]) for line in lines]
    assert scores == sorted(scores, reverse=True)


def test_probabilities_of_a_model_of_ones_own_judge(run, posts, posts_csv, tmp_path):
    rng = np.random.default_rng(0)
    names = sorted(TOPICS)
    truth = np.array([[t in p[3] for t in names] for p in posts])
    probability = np.clip(0.2 + 0.6 * truth + 0.1 * rng.normal(size=truth.shape), 0.01, 0.99)
    np.save(tmp_path / "p.npy", probability)
    result = run("clean", *options(posts_csv), "--pred-probs", tmp_path / "p.npy", "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    assert "your probabilities" in json.loads(result.stdout)["method"]
    suspects = tmp_path / "suspects.csv"
    frame = pd.DataFrame(probability, columns=names)[names[::-1]]
    frame.to_parquet(tmp_path / "p.parquet")
    arguments = ("clean", *options(posts_csv), "--pred-probs", tmp_path / "p.parquet", "--suspects", suspects)
    assert run(*arguments).exit_code == 0
    with suspects.open(newline="", encoding="utf-8") as stream:
        found = [line["label"] not in posts[int(line["row"])][3] for line in csv.DictReader(stream)]
    assert np.mean(found[:10]) > 0.8
    np.save(tmp_path / "bad.npy", probability[:, :2])
    refused = run("clean", *options(posts_csv), "--pred-probs", tmp_path / "bad.npy", "--dry-run")
    assert refused.exit_code != 0
    assert "pred_probs must have" in refused.output
    both = run("clean", *options(posts_csv), "--pred-probs", tmp_path / "p.npy", "-m", "MLkNN", "--dry-run")
    assert "exclude each other" in both.output


def test_whether_every_row_has_a_label_can_be_said(run, posts_csv):
    arguments = ("clean", *options(posts_csv), "--dry-run", "--json", "--every-row-has-a-label")
    high = [json.loads(run(*arguments, answer).stdout)["noise_rate_high"] for answer in ("yes", "no")]
    assert high[0] < high[1]
    assert "must be one of auto, yes, no" in run(*arguments, "maybe").output


def test_what_rows_without_labels_are_can_be_said(run, tmp_path):
    table = tmp_path / "points.csv"
    rng = np.random.default_rng(0)
    lines = [f"{x:.3f},{y:.3f},{'' if k % 4 == 0 else 'left' if x < 0 else 'right'}" for k, (x, y) in
             enumerate(rng.normal(size=(200, 2)))]  # fmt: skip
    table.write_text("\n".join(["x,y,tags", *lines]) + "\n", encoding="utf-8")
    arguments = ("clean", table, "--labels", "tags", "--dry-run", "--json", "--empty-rows")
    facts = json.loads(run(*arguments, "negative").stdout)
    assert facts["method"].endswith("rows without labels taken for negative: as given")
    assert "must be one of auto, unlabelled, negative, got 'drop'" in run(*arguments, "drop").output


def test_all_suspects_by_the_names_of_their_rows(run, posts_csv, tmp_path):
    path = tmp_path / "all.csv"
    result = run("clean", *options(posts_csv), "--suspects", path, "--json")
    facts = json.loads(result.stdout)
    with path.open(newline="", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert len(lines) == facts["suspects"] > 0
    assert facts["id_column"] == "post_id"
    assert all(line["id"] == f"p{line['row']}" and float(line["confidence"]) < 0.5 for line in lines)
    assert [int(line["rank"]) for line in lines] == list(range(1, len(lines) + 1))
    by_note = run("clean", *options(posts_csv), "--id", "note", "--dry-run")
    assert by_note.exit_code == 0, by_note.output
    assert "the identifier column 'note' repeats 239 values." in by_note.stderr
    two = run("clean", *options(posts_csv), "--id", "note", "--option", "id=body", "--dry-run")
    assert "different columns" in two.stderr


def test_standard_input_is_a_table_too(posts_csv, shell):
    done = shell("info", "-", "--labels", "tags", "--json", input=posts_csv.read_bytes())
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["labels"], facts["columns"]) == (
        240,
        4,
        ["body: TF-IDF of 62 words", "note: TF-IDF of 3 words"],
    )


def test_the_advice_can_be_typed_as_it_stands_also_from_the_report(run, posts_csv, tmp_path):
    page = tmp_path / "page.html"
    result = run("clean", *options(posts_csv), "--dry-run", "--json", "--report", page)
    command = json.loads(result.stdout)["advice"].partition("pmlkit review ")[2]
    assert command == shlex.join(map(str, options(posts_csv)))
    assert f"pmlkit review {command}" in html.unescape(page.read_text(encoding="utf-8"))


@pytest.mark.filterwarnings("default")
def test_answers_of_several_people_on_the_command_line(run, posts_csv, tmp_path):
    facts = json.loads(run("clean", *options(posts_csv), "--dry-run", "--json").stdout)
    assert facts["id_column"] == "post_id"
    run("clean", *options(posts_csv), "--suspects", tmp_path / "all.csv")
    first = pd.read_csv(tmp_path / "all.csv", nrows=1)
    answers = pd.concat([first[["id", "label"]]] * 3).assign(answer=["right", "right", "wrong"])
    path = tmp_path / "answers.csv"
    answers.to_csv(path, index=False)
    log = tmp_path / "log.csv"
    result = run("clean", *options(posts_csv), "--answers", path, "--log", log)
    assert "warning: 1 label was answered in different ways, and the latest answer counts:" in result.stderr
    assert "Pass --settle 'majority' to let the majority decide." in result.stderr
    gone = pd.read_csv(log)
    assert ((gone["id"] == first["id"][0]) & (gone["label"] == first["label"][0])).any()
    result = run("clean", *options(posts_csv), "--answers", path, "--log", log, "--settle", "majority", "--force")
    assert "and the majority counts" in result.stderr
    gone = pd.read_csv(log)
    assert not ((gone["id"] == first["id"][0]) & (gone["label"] == first["label"][0])).any()
    result = run("clean", *options(posts_csv), "--answers", path, "--dry-run", "--settle", "mayority")
    assert (result.exit_code, result.stderr) == (
        2, "error: --settle must be one of latest, majority, got 'mayority'. Did you mean 'majority'?\n"
    )  # fmt: skip
    before = path.read_bytes()
    result = run("clean", *options(posts_csv), "--answers", path, "--log", path, "--force")
    assert result.exit_code == 2
    assert "is the input: it is never overwritten" in result.stderr
    assert path.read_bytes() == before


@pytest.mark.filterwarnings("default")
def test_probabilities_that_cannot_be_meant(run, posts, posts_csv, tmp_path):
    given = np.array([[topic in tags for topic in sorted(TOPICS)] for _, _, tags, _ in posts])
    seen = tmp_path / "seen.npy"
    np.save(seen, 0.01 + 0.98 * given)
    result = run("clean", *options(posts_csv), "--dry-run", "--pred-probs", seen)
    assert "warning: pred_probs tell given labels from others almost perfectly" in result.stderr
    other = tmp_path / "other.parquet"
    pd.DataFrame(0.01 + 0.98 * given, columns=["cook", "music", "sports", "travel"]).to_parquet(other)
    result = run("clean", *options(posts_csv), "--dry-run", "--pred-probs", other)
    assert result.exit_code == 1
    assert "a column 'sports', which is no label. Did you mean 'sport'?" in result.stderr
    result = run("clean", *options(posts_csv), "--dry-run", "--pred-probs", tmp_path / "none.npy")
    assert "There is no file" in result.stderr


def test_features_that_tell_nothing_are_named(run, tmp_path):
    rng = np.random.default_rng(1)
    lines = (
        f"q{i},c{rng.integers(3)},{rng.normal():.3f},{';'.join(n for n in 'uvw' if rng.random() < 0.5) or 'u'}"
        for i in range(150)
    )
    (tmp_path / "t.csv").write_text("\n".join(["id,kind,size,tags", *lines]))
    result = run("clean", tmp_path / "t.csv", "--labels", "tags", "--categories", "kind", "--dry-run")
    assert result.exit_code == 1
    assert "The features of 'kind', without 'size', do not predict" in result.stderr
