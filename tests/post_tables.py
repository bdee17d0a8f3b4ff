"""Small tables of posts with tags, for the tests of the command line: words tell the topic, some tags are false."""

import csv
import json

import numpy as np

TOPICS = ("cook", "travel", "music", "sport")


def make_posts(n_rows=240):
    """Return rows of (id, body, tags, true tags); four in ten rows may have a false tag."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n_rows):
        true = sorted(rng.choice(4, size=rng.integers(1, 3), replace=False).tolist())
        given = set(true) | ({int(rng.integers(4))} if rng.random() < 0.4 else set())
        words = [f"{TOPICS[k]}{rng.integers(8)}" for k in true for _ in range(4)]
        body = " ".join(rng.permutation([*words, *(f"word{j}" for j in rng.integers(30, size=4))]))
        rows.append((f"p{i}", body, [TOPICS[k] for k in sorted(given)], [TOPICS[k] for k in true]))
    return rows


def write_posts(posts, path):
    """Write the posts in the format of the path's ending, and return the options by which they are read."""
    sets = ("--labels", "tags", "--text", "body")
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\r\n")
            writer.writerow(["post_id", "body", "tags", "truth"])
            writer.writerows([name, body, ";".join(given), ";".join(true)] for name, body, given, true in posts)
        return sets
    if path.suffix == ".jsonl":
        lines = ({"post_id": p[0], "body": p[1], "tags": p[2], "truth": p[3]} for p in posts)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return sets
    if path.suffix == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        columns = {name: [p[k] for p in posts] for k, name in enumerate(("post_id", "body", "tags", "truth"))}
        parquet.write_table(pa.table(columns), path)
        return sets
    header = "@relation posts\n@attribute body string\n" + "".join(f"@attribute t_{t} {{0,1}}\n" for t in TOPICS)
    rows = (f"'{body}'," + ",".join(str(int(t in given)) for t in TOPICS) + "\n" for _, body, given, _ in posts)
    path.write_text(header + "@data\n" + "".join(rows), encoding="utf-8")
    return ("--labels", "t_*", "--text", "body")
