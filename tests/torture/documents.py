"""Documents that are right in form and odd in content, for every reader: odd names, types, shapes and values.

``document(name, chance)`` returns the bytes of one, or None where a reader has no such documents; `chance` is a
`random.Random`, so that hypothesis can drive it, too.
"""

import contextlib
import io
import json
import pickle
import sqlite3
import tempfile
import zipfile
from pathlib import Path

import numpy as np

TEXTS = [
    "",
    " ",
    "a",
    "b;c",
    "0",
    "1",
    "-1",
    "1e999",
    "nan",
    "NaN",
    "?",
    "²",
    "é",
    "\u2028",
    "=1+1",
    "'",
    '"',
    "{",
    "\x00",
]
TEXTS += ["label:x", "true:x", "id", "a\nb", "\x1b[31m", "9" * 400, "True", "null", "\ud7ff", "L", "x" * 3000]
NUMBERS = [0, 1, -1, 0.5, 2, 1e300, 5e-324, 2**31, 2**53 + 1, -0.0]
SHAPES = [(), (0,), (1,), (3,), (3, 2), (0, 2), (3, 0), (2, 2, 2), (12, 3)]
TYPES = ["f8", "f4", "i8", "u1", "i2", "?", "U4", "S3", "c16", "M8[s]", "f2", ">i4"]


def _value(chance, depth=0):
    kind = chance.randrange(9 if depth < 2 else 6)
    if kind < 3:
        return chance.choice(TEXTS)
    if kind < 6:
        return chance.choice([*NUMBERS, None, True, False])
    if kind < 8:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(TEXTS): _value(chance, depth + 1) for _ in range(chance.randrange(3))}


def _array(chance):
    shape, kind = chance.choice(SHAPES), np.dtype(chance.choice(TYPES))
    content = chance.randbytes(max(1, int(np.prod(shape)) * kind.itemsize))
    if kind.kind in "f" and chance.random() < 0.5:
        return np.resize(np.array([chance.choice(NUMBERS) for _ in range(5)]), shape).astype(kind)
    if kind.kind == "U":
        return np.resize(np.array(chance.choices(TEXTS[:19], k=3), dtype=kind), shape)
    return np.frombuffer(content, dtype=kind, count=int(np.prod(shape))).reshape(shape)


def _cell(text, mark):
    return f'"{text}"' if mark in text or '"' in text or "\n" in text else text


def _delimited(mark, header=("id", "body", "tags", "label:x", "a")):
    def make(chance):
        names = [chance.choice([*header, *TEXTS]) for _ in range(chance.randrange(1, 5))]
        if chance.random() < 0.6:
            names = list(header[:3]) if header[1] == "body" else names
        rows = [[str(chance.choice([*TEXTS, *NUMBERS])) for _ in names[: chance.choice((9, 9, 9, 1))]]
                for _ in range(chance.randrange(6))]  # fmt: skip
        end = chance.choice(("\n", "\r\n", "\r"))
        text = end.join(mark.join(_cell(text, mark) for text in row) for row in [names, *rows]) + chance.choice(
            (end, "")
        )
        return text.encode(chance.choice(("utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig")), "replace")

    return make


def _json(lines):
    def make(chance):
        rows = [
            {chance.choice(["id", "body", "tags", "tags", "a"]): _value(chance) for _ in range(chance.randrange(1, 4))}
            for _ in range(chance.randrange(1, 5))
        ]
        shown = [json.dumps(row, ensure_ascii=chance.random() < 0.5) for row in rows]
        return ("\n".join(shown) if lines else f"[{','.join(shown)}]").encode("utf-8", "replace")

    return make


def _arff(chance):
    kinds = ["real", "numeric", "{0,1}", "{1,0}", "string", "date", "{x,'y z',\"w\"}", "relational", "{}", "integer"]
    names = [repr(chance.choice(TEXTS[:22])) for _ in range(chance.randrange(1, 5))]
    labels = chance.choice(("-C 1", "-C -1", "-C 9", "", "-C 0"))
    head = f"@relation 'r: {labels}'\n" + "".join(f"@attribute {name} {chance.choice(kinds)}\n" for name in names)
    cells = ["0", "1", "?", "x", "'y z'", "1e5", "nan", "", "2020-01-01"]
    rows = []
    for _ in range(chance.randrange(5)):
        given = [chance.choice(cells) for _ in names]
        if chance.random() < 0.5:
            rows.append("{" + ",".join(f"{chance.randrange(len(names) + 1)} {cell}" for cell in given) + "}")
        else:
            rows.append(",".join(given) + chance.choice(("", ",{2}", "%")))
    return (head + "@data\n" + "\n".join(rows)).encode("utf-8", "replace")


def _xml(chance):
    names = "".join(
        f"<label name={chance.choice(TEXTS[:12])!r}>{chance.choice(('', '<label/>', 'x', '<!-- -->'))}</label>"
        for _ in range(chance.randrange(4))
    )
    head = chance.choice(("", "<?xml version='1.0'?>", "<!DOCTYPE a>"))
    return f"{head}<labels>{names}</labels>".encode()


def _libsvm(chance):
    numbers = ["0", "1", "-1", "3", "2147483648", "1.5", "nan", "1e999", ""]
    lines = [
        ",".join(chance.choices(numbers[:5], k=chance.randrange(3)))
        + " "
        + " ".join(f"{chance.choice(numbers[:5])}:{chance.choice(numbers)}" for _ in range(chance.randrange(4)))
        for _ in range(chance.randrange(1, 5))
    ]
    return ("\n".join(chance.sample([*lines, "3 4 2", "# note", ""], k=len(lines)))).encode()


def _npz(chance):
    names = ["X", "Y", "truth", "ids", "media", "media_text", "media_ends", "X_data", "X_indices", "X_indptr",
             "X_shape", "label_names", "feature_names", "name", "other"]  # fmt: skip
    arrays = {name: _array(chance) for name in chance.sample(names, chance.randrange(1, 6))}
    if chance.random() < 0.7:
        arrays |= {"X": np.zeros((3, 2)), "Y": np.ones((3, 2), dtype=np.uint8)}
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _one_npz(chance):
    stream = io.BytesIO()
    np.savez(stream, **{chance.choice(("a", "b")): _array(chance) for _ in range(chance.randrange(1, 3))})
    return stream.getvalue()


def _npy(chance):
    stream = io.BytesIO()
    np.save(stream, _array(chance), allow_pickle=False)
    return stream.getvalue()


def _mat(chance):
    from scipy import sparse
    from scipy.io import savemat

    def value():
        kind = chance.randrange(6)
        array = _array(chance)
        if array.dtype.kind in "M" or array.dtype == np.float16:
            array = np.zeros((3, 2))
        if kind == 0:
            return sparse.csc_array(np.eye(3))
        if kind == 1:
            return {"a": 1.0}
        if kind == 2:
            return np.array([array, "x"], dtype=object)
        return array

    names = chance.sample(
        ["data", "target", "partial_labels", "train_data", "X", "Y", "labels"], chance.randrange(1, 4)
    )
    stream = io.BytesIO()
    savemat(stream, {name: value() for name in names}, do_compression=chance.random() < 0.5)
    return stream.getvalue()


def _parquet(chance):
    import pyarrow as pa
    from pyarrow import parquet

    columns = {}
    for name in chance.sample(["id", "body", "tags", "label:x", "a", "", "é"], chance.randrange(1, 5)):
        kind = chance.randrange(6)
        if kind == 0:
            columns[name] = pa.array([["a"], None, [], ["b", None]])
        elif kind == 1:
            columns[name] = pa.array([{"a": 1}, None, {"a": 2}, {}])
        elif kind == 2:
            columns[name] = pa.array([1, 2, 3, None], chance.choice((pa.timestamp("s"), pa.int8(), pa.float32())))
        elif kind == 3:
            columns[name] = pa.DictionaryArray.from_arrays(pa.array([0, 0, None, 1]), pa.array(["x", "y"]))
        else:
            columns[name] = pa.array([chance.choice(TEXTS) for _ in range(4)])
    stream = io.BytesIO()
    parquet.write_table(pa.table(columns), stream)
    return stream.getvalue()


def _image(chance):
    from PIL import Image

    mode = chance.choice(("1", "L", "P", "RGB", "RGBA", "CMYK", "I;16", "F", "LA", "I"))
    kind = chance.choice(("PNG", "GIF", "TIFF", "BMP", "WEBP", "PPM"))
    stream = io.BytesIO()
    try:
        Image.new(mode, (chance.choice((1, 7, 300)), chance.choice((1, 5)))).save(stream, kind)
    except (OSError, ValueError, KeyError):
        return chance.randbytes(20)
    return stream.getvalue()


def _model(samples):
    with zipfile.ZipFile(io.BytesIO(samples[0])) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}

    def make(chance):
        schema = json.loads(members["schema.json"])
        nodes = []

        def walk(node):
            if isinstance(node, dict):
                nodes.append(node)
                for child in node.values():
                    walk(child)
            elif isinstance(node, list):
                for child in node:
                    walk(child)

        walk(schema)
        for _ in range(chance.randrange(1, 4)):
            node = chance.choice(nodes)
            if node:
                key = chance.choice(sorted(node))
                node[key] = chance.choice([_value(chance), chance.choice(nodes).get(key), "TypeNode", "os", "system"])
        stream = io.BytesIO()
        try:
            text = json.dumps(schema)
        except (ValueError, RecursionError):
            text = "{}"
        with zipfile.ZipFile(stream, "w") as packed:
            for name, content in members.items():
                packed.writestr(name, text if name == "schema.json" else content)
            if chance.random() < 0.1:
                packed.writestr("x.pkl", pickle.dumps(print))
        return stream.getvalue()

    return make


def _plan(chance):
    keys = ["data", "methods", "noise", "kinds", "repeats", "seed", "tune", "other"]
    values = ['["scene"]', '"digit-strips"', "[]", "3", "-1", "true", "1e5", '[["a"]]', "{a = 1}", "nan", "1979-05-27"]
    values += ['[{name = "MLkNN", params = {n_neighbors = [3, 5]}}]', '["own", 0.5]', '["uniform"]', '["MLkNN"]']
    text = "".join(f"{key} = {chance.choice(values)}\n" for key in chance.sample(keys, chance.randrange(1, 6)))
    return text.encode()


def _store(sample, tables):
    def make(chance):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "s.sqlite")
            path.write_bytes(sample)
            connection = sqlite3.connect(path)
            for _ in range(chance.randrange(1, 4)):
                table = chance.choice(tables)
                columns = [line[1] for line in connection.execute(f"PRAGMA table_info({table})")]
                odd = [*TEXTS[:20], *[n for n in NUMBERS if abs(n) < 2**62], None, b"\xff\x00", "[1]", "{}"]
                values = [chance.choice(odd) for _ in columns]
                connection.execute("PRAGMA ignore_check_constraints = ON")
                for statement in (
                    f"INSERT OR REPLACE INTO {table} VALUES ({','.join('?' * len(columns))})",
                    f"UPDATE {table} SET {chance.choice(columns or ['a'])} = ?",
                    f"DROP TABLE {table}" if chance.random() < 0.1 else "SELECT 1",
                ):
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute(statement, values[: statement.count("?")])
            connection.commit()
            connection.close()
            return path.read_bytes()

    return make


def _prodigy(chance):
    lines = [
        {"label": _value(chance), "answer": chance.choice(["accept", "reject", "ignore", _value(chance)]),
         "meta": chance.choice([{"row": _value(chance)}, {"row": 1}, _value(chance)])}
        for _ in range(chance.randrange(1, 4))
    ]  # fmt: skip
    return "\n".join(map(json.dumps, lines)).encode()


def _label_studio(chance):
    def annotation():
        chosen = {"type": chance.choice(["choices", _value(chance)]), "value": {"choices": [_value(chance)]}}
        return chance.choice([{"result": [chosen, chosen], "completed_by": _value(chance)}, _value(chance)])

    tasks = [
        {"data": chance.choice([{"row": _value(chance), "label": _value(chance)}, {"row": 1, "label": "a"}]),
         "annotations": [annotation() for _ in range(chance.randrange(3))]}
        for _ in range(chance.randrange(1, 4))
    ]  # fmt: skip
    return json.dumps(tasks).encode()


def makers(samples):
    """Return, for each reader, a function that makes a document; `samples` are valid contents by reader."""
    answers = ("row", "label", "answer", "id", "who")
    return {
        "ARFF, dense (MEKA)": _arff, "ARFF, sparse": _arff, "ARFF, dense (labels named)": _arff, "MULAN XML": _xml,
        "MATLAB": _mat, "libsvm": _libsvm, "CSV, 0/1 columns": _delimited(",", ("id", "a", "label:x", "true:x", "b")),
        "CSV, label sets": _delimited(","), "TSV": _delimited("\t", ("id", "a", "label:x", "true:x", "b")),
        "JSON": _json(lines=False), "JSON Lines": _json(lines=True), "Parquet": _parquet, "npz": _npz,
        "embeddings, npy": _npy, "embeddings, npz": _one_npz, "images": _image,
        "model files (skops)": _model(samples["model files (skops)"]), "plans (TOML)": _plan,
        "stores of a review": _store(samples["stores of a review"][0], ["event", "meta", "visitor"]),
        "stores of bench": _store(samples["stores of bench"][0], ["cells", "places", "runs"]),
        "answers (CSV)": _delimited(",", answers), "answers (Prodigy)": _prodigy,
        "reviews that are applied": _store(samples["reviews that are applied"][0], ["event", "meta"]),
        "answers (Label Studio)": _label_studio,
    }  # fmt: skip
