"""Damage valid files and read them: ``python tests/torture/fuzz.py [inputs] [reader] [seed] [processes] [minutes]``.

Three in four inputs are valid files that were damaged byte by byte, the fourth is a document of
`tests/torture/documents.py`, right in form and odd in content. For each reader: only pmlkit's own errors may come out,
no input may take longer than 2 s of processor time, and the memory of the process may not grow by more than 10 times
the input plus 100 MB. Prints a table in Markdown; exit code 1 if any promise is broken. Broken inputs are kept in the
folder ``fuzz-found``. The inputs follow from the seed, whatever the number of processes. The counts so far go to
stderr, so that a run that is stopped says how far it came. With a number of minutes every reader gets the first part of
its inputs, then the next one, and so on; the table says how many there was time for.
"""

import contextlib
import io
import json
import logging
import math
import os
import random
import resource
import signal
import sqlite3
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

import pmlkit
from pmlkit.bench.plan import read_plan
from pmlkit.bench.plan_entries import PlanError
from pmlkit.bench.store_reader import create_tables, load_cells
from pmlkit.cleaning.audit import Answers
from pmlkit.cleaning.review.exchange import import_answers
from pmlkit.cleaning.review.outputs import apply_review
from pmlkit.cleaning.review.store import AnswerStore, Event
from pmlkit.data import PMLDataset, read, write
from pmlkit.data.files.arff import read_label_xml
from pmlkit.data.files.side_features import read_embeddings, read_images
from pmlkit.exceptions import DataError, MethodError
from pmlkit.persistence import load, save

sys.path.insert(0, str(Path(__file__).parent))
from documents import makers

OWN = (DataError, MethodError, PlanError)
SECONDS, MEGABYTES = 2.0, 100
PART = 2_000  # inputs that one process reads
COUNTS = ("inputs", "refused", "errors", "slow", "large")
TOKENS = [
    *(b"", b"0", b"1", b"-1", b"9" * 30, b"9" * 5000, b"1e999", b"nan", b"2147483647", b"4294967296", b"true", b"null"),
    *(b"\x00", b"\xff\xfe", b"\xc3", b"\n", b"\r", b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b"\\", b"="),
    *("²".encode(), b"../", b"%", b"@data"),
]

READERS = (
    "ARFF, dense (MEKA)",
    "ARFF, sparse",
    "ARFF, dense (labels named)",
    "MULAN XML",
    "MATLAB",
    "libsvm",
    "CSV, 0/1 columns",
    "CSV, gzip and bzip2",
    "CSV, label sets",
    "TSV",
    "JSON",
    "JSON Lines",
    "Parquet",
    "npz",
    "embeddings, npy",
    "embeddings, npz",
    "images",
    "model files (skops)",
    "plans (TOML)",
    "stores of a review",
    "reviews that are applied",
    "stores of bench",
    "answers (CSV)",
    "answers (Prodigy)",
    "answers (Label Studio)",
)


class TooSlow(BaseException):
    """An input took longer than it may."""


def samples(folder):
    """Return, for each reader, a function of a path and some valid contents."""
    rng = np.random.default_rng(0)
    data = PMLDataset(
        np.round(rng.normal(size=(12, 3)), 2),
        (rng.random((12, 3)) < 0.6).astype(int),
        ids=[f"r{i}" for i in range(12)],
    )
    made = {}

    def of(name, **options):
        path = folder / name
        write(data, path, force=True, **options)
        return path.read_bytes()

    from scipy.io import savemat

    mat = io.BytesIO()
    savemat(mat, {"data": np.asarray(data.X), "target": data.Y.toarray().astype(float)}, do_compression=True)
    plain = io.BytesIO()
    savemat(plain, {"data": np.asarray(data.X), "target": data.Y.toarray().astype(float)})
    texts = [{"id": i, "body": f"word{i % 3} and more words", "tags": ["a", "b"][: 1 + i % 2]} for i in range(8)]
    sets = "id,body,tags\n" + "".join(f"{r['id']},{r['body']},{';'.join(r['tags'])}\n" for r in texts)
    meka = of("t.arff")
    header = b"@relation 'r: -C 1'\n@attribute L {0,1}\n@attribute a real\n@attribute b {x,y}\n@data\n"
    sparse_arff = header + b"{0 1,1 2.5}\n{}\n{1 3,2 y}\n"
    mulan = b"@relation r\n@attribute a real\n@attribute L {0,1}\n@data\n1,0\n2,1\n"
    made["ARFF, dense (MEKA)"] = (read, ".arff", [meka])
    made["ARFF, sparse"] = (read, ".arff", [sparse_arff])
    made["ARFF, dense (labels named)"] = (lambda path: read(path, labels="L"), ".arff", [mulan])
    made["MULAN XML"] = (read_label_xml, ".xml", [b'<labels><label name="L"><label name="M"/></label></labels>'])
    made["MATLAB"] = (read, ".mat", [mat.getvalue(), plain.getvalue()])
    made["libsvm"] = (read, ".svm", [of("t.svm"), b"0,2 1:0.5 3:1\n 2:4\n"])
    made["CSV, 0/1 columns"] = (read, ".csv", [of("t.csv")])
    made["CSV, gzip and bzip2"] = (read, ".csv", [of("t.csv.gz"), of("t.csv.bz2")])
    made["CSV, label sets"] = (lambda path: _table(path), ".csv", [sets.encode()])
    made["TSV"] = (read, ".tsv", [of("t.tsv")])
    made["JSON"] = (_table, ".json", [json.dumps(texts).encode()])
    made["JSON Lines"] = (_table, ".jsonl", ["".join(json.dumps(t) + "\n" for t in texts).encode()])
    made["Parquet"] = (read, ".parquet", [of("t.parquet")])
    made["npz"] = (read, ".npz", [of("t.npz"), _stored(of("t.npz"))])
    np.save(folder / "e.npy", rng.normal(size=(8, 3)))
    np.savez(folder / "e.npz", rng.normal(size=(8, 3)))
    made["embeddings, npy"] = (lambda path: read_embeddings(path, 8), ".npy", [(folder / "e.npy").read_bytes()])
    made["embeddings, npz"] = (lambda path: read_embeddings(path, 8), ".npz", [(folder / "e.npz").read_bytes()])
    from PIL import Image

    pictures = []
    for kind in ("PNG", "JPEG", "GIF", "BMP"):
        stream = io.BytesIO()
        Image.fromarray(rng.integers(0, 255, (20, 20, 3), dtype=np.uint8)).save(stream, kind)
        pictures.append(stream.getvalue())
    made["images"] = (lambda path: read_images(path.parent, [path.name]), ".png", pictures)
    save(pmlkit.MLkNN().fit(data.X, data.Y), folder / "m.skops")
    save(pmlkit.PMLLFC().fit(data.X, data.Y), folder / "n.skops")
    models = [(folder / name).read_bytes() for name in ("m.skops", "n.skops")]
    made["model files (skops)"] = (load, ".skops", [*models, *map(_stored, models)])
    plan = b'repeats = 1\nseed = 3\nnoise = [0.5, 1]\n[[data]]\nname = "digit-strips"\n'
    plan += b'[[methods]]\nname = "MLkNN"\nparams = {n_neighbors = 5}\n'
    made["plans (TOML)"] = (read_plan, ".toml", [plan])
    with AnswerStore(folder / "a.sqlite", fingerprint="0" * 16) as store:
        store.append([Event("ann", "answer", "audit", row=3, label="cat", answer="wrong", shown={"a": 1})])
    made["stores of a review"] = (_review_store, ".sqlite", [(folder / "a.sqlite").read_bytes()])
    with AnswerStore(folder / "r.sqlite") as store:
        row, label = 0, data.label_names[int(data.Y.indices[0])]
        store.append(
            [
                Event("ann", "answer", "selection", row, label, "wrong"),
                Event("ann", "answer", "missing", 1, label, "right"),
                Event("ann", "answer", "merge", None, label, "right", shown={"into": data.label_names[-1]}),
            ]
        )
        store.set(certificate='{"cells": [1], "promise": "at least 90 %"}', certified_up_to="3")
    made["reviews that are applied"] = (
        lambda path: apply_review(path, data.X, data.Y, data.label_names, check=False),
        ".sqlite",
        [(folder / "r.sqlite").read_bytes()],
    )
    with contextlib.closing(sqlite3.connect(folder / "b.sqlite")) as connection:
        create_tables(connection)
        connection.commit()
    made["stores of bench"] = (load_cells, ".sqlite", [(folder / "b.sqlite").read_bytes()])
    answers = pd.DataFrame({"row": [0, 1, 2], "label": ["a", "b", "a"], "answer": ["wrong", "right", "unsure"]})
    Answers.from_frame(answers).write(folder / "answers.csv")
    made["answers (CSV)"] = (Answers.read, ".csv", [(folder / "answers.csv").read_bytes()])
    prodigy = json.dumps({"label": "a", "answer": "reject", "meta": {"row": 1}, "_annotator_id": "x"}).encode() + b"\n"
    made["answers (Prodigy)"] = (lambda path: import_answers(path, "prodigy"), ".jsonl", [prodigy])
    chosen = {"type": "choices", "value": {"choices": ["wrong"]}}
    task = {"data": {"row": 1, "label": "a"}, "annotations": [{"result": [chosen], "completed_by": {"id": 3}}]}
    studio = json.dumps([task]).encode()
    made["answers (Label Studio)"] = (lambda path: import_answers(path, "label-studio"), ".json", [studio])
    return made


def _table(path):
    table = pmlkit.open_table(path, labels="tags", text="body")
    return table.Y, table.X


def _review_store(path):
    with AnswerStore(path, fingerprint=None) as store:
        return store.standing()


def _stored(content):
    """Return a zip archive without compression, so that damage reaches the content and not only the packing."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as packed, zipfile.ZipFile(stream, "w") as target:
        for name in packed.namelist():
            target.writestr(name, packed.read(name))
    return stream.getvalue()


def damaged(content, chance):
    """Return the content with a few random changes."""
    content = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        n = len(content)
        i = chance.randrange(n + 1)
        j = min(n, i + chance.choice((0, 1, 2, 4, 8, 64)))
        kind = chance.randrange(7)
        if kind == 0 and n:
            content[min(i, n - 1)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            content[i:j] = chance.randbytes(j - i)
        elif kind == 2:
            content[i:j] = chance.choice(TOKENS)
        elif kind == 3:
            del content[i:]
        elif kind == 4:
            content[i:i] = content[i:j] * chance.choice((1, 2, 50))
        elif kind == 5:
            k = chance.randrange(n + 1)
            content[i:j], content[k : k + j - i] = content[k : k + j - i], content[i:j]
        else:
            content[i:j] = (chance.choice((0, 1, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**63 - 1)) % 2**64).to_bytes(
                8, chance.choice(("little", "big"))
            )
    return bytes(content)


def _alarm(number, frame):
    raise TooSlow


def _peak_memory(*, forget=False):
    """Return the largest resident memory in bytes so far, or since it was forgotten where Linux lets that happen."""
    if not forget:
        with contextlib.suppress(OSError), open("/proc/self/status") as stream:
            return next(int(line.split()[1]) for line in stream if line.startswith("VmHWM")) * 1024
    else:
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as stream:
            stream.write("5")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fuzz(name, reader, suffix, contents, n_inputs, folder, make, seed):
    """Return how many inputs were read, how many of them were refused, and what went wrong."""
    chance = random.Random(f"{name} {seed}")
    path = folder / f"input{suffix}"
    counts, found = dict.fromkeys(COUNTS, 0), {}
    for i in range(n_inputs):
        is_document = make is not None and i % 4 == 3
        content = make(chance) if is_document else damaged(chance.choice(contents), chance)
        path.write_bytes(content)
        counts["inputs"] += 1
        _peak_memory(forget=True)
        before = _peak_memory()
        problem = None
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            reader(path)
        except OWN:
            counts["refused"] += 1
        except TooSlow:
            problem = "slow", "slow"
        except Exception as error:
            problem = "errors", f"{type(error).__name__}: {str(error)[:100]}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        grown = _peak_memory() - before
        if grown > 10 * len(content) + MEGABYTES * 2**20:
            problem = "large", f"{grown / 2**20:.0f} MB"
        if problem:
            counts[problem[0]] += 1
            if problem[1][:40] not in found:
                found[problem[1][:40]] = problem[1]
                _keep(content, name, f"{seed}-{i}{suffix}")
        for left in folder.glob("input*"):
            left.unlink(missing_ok=True)
    return counts, list(found.values())


def _keep(content, name, where):
    kept = Path("fuzz-found")
    kept.mkdir(exist_ok=True)
    (kept / f"{''.join(c if c.isalnum() else '-' for c in name)}-{where}".replace(" ", "-")).write_bytes(content)


def fuzz_in_parts(valid, make, n_inputs, seed, n_processes, folder, minutes=math.inf):
    """Yield the counts and findings of each reader; every part of the inputs is read by a forked process.

    With a number of minutes the readers take turns, and no part begins later.
    """
    waiting = [(key, part) for key in valid for part in range(-(-n_inputs // PART))]
    if minutes < math.inf:
        waiting.sort(key=lambda reader_and_part: reader_and_part[1])
    end = time.monotonic() + 60 * minutes
    left = Counter(key for key, _ in waiting)
    totals = {key: (Counter(dict.fromkeys(COUNTS, 0)), []) for key in valid}
    running = {}
    while waiting or running:
        if waiting and time.monotonic() > end:
            stopped = Counter(key for key, _ in waiting)
            waiting.clear()
            left -= stopped
            yield from ((key, *totals[key]) for key in stopped if not left[key])
            continue
        while waiting and len(running) < n_processes:
            key, part = waiting.pop(0)
            own = folder / f"{len(waiting)}"
            own.mkdir()
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    size = min(PART, n_inputs - part * PART)
                    result = fuzz(key, *valid[key], size, own, make.get(key), f"{seed} {part}")
                    (own / "result.json").write_text(json.dumps(result))
                    code = 0
                finally:
                    os._exit(code)
            running[child] = key, own
        child, status = os.wait()
        key, own = running.pop(child)
        if status:  # the interpreter crashed: the input that did it is still there
            for path in own.glob("input*"):
                _keep(path.read_bytes(), key, f"crash{path.suffix}")
            counts, found = {"errors": 1}, [f"the process ended with {os.waitstatus_to_exitcode(status)}"]
        else:
            counts, found = json.loads((own / "result.json").read_text())
        totals[key][0].update(counts)
        totals[key][1].extend(found)
        left[key] -= 1
        if left[key]:
            print(f"  {key}, so far: {dict(totals[key][0])}", file=sys.stderr, flush=True)
        else:
            yield key, *totals[key]


def main():
    """Fuzz all readers, or those whose name holds a text, with a number of inputs each, and print the table."""
    given = sys.argv[1:]
    n_inputs, only, seed, n_processes, minutes = given + ["100000", "", "0", "2", "inf"][len(given) :]
    logging.disable()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _alarm)
    bad = 0
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk would take most of the time
    with tempfile.TemporaryDirectory(dir=memory) as name:
        all_of_them = samples(Path(name))
        valid = {key: value for key, value in all_of_them.items() if only in key}
        make = makers({key: contents for key, (_, _, contents) in all_of_them.items()})
        print("| reader | inputs | refused | other errors | over 2 s | over memory |\n|---|---|---|---|---|---|")
        for key, counts, found in fuzz_in_parts(
            valid, make, int(n_inputs), seed, int(n_processes), Path(name), float(minutes)
        ):
            print(f"| {key} | " + " | ".join(f"{counts[column]:,}" for column in COUNTS) + " |", flush=True)
            for sentence in found:
                print(f"  {key}: {sentence}", file=sys.stderr, flush=True)
            bad += len(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
