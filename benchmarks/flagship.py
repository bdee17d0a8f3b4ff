"""ClearPML against logistic regression, PML-LFC and the other methods: ranking, label sets, cleaning, time.

    python benchmarks/flagship.py [quality] [text] [stability] [ablation] [semi] [time] [large]
                                  [--data scene,enron] [--splits 3] [--rivals] [--out cells.csv]

With no word, `quality`. `text` has real noise (realnoise/ in the data folder) and wide text (the docstrings of
installed packages, labelled by the functions that their code calls; the descriptions of Debian's packages with their
tags). The baseline is the better of one-vs-rest logistic regression with C = 1 and C = 10 on each configuration.
Every configuration is a data set with a kind of noise; figures are means over the splits. Parameters are the defaults:
nothing is chosen on test rows. Finished cells are kept in --out, and a second run goes on.
"""

import argparse
import ast
import csv
import importlib
import shutil
import subprocess
import time
import warnings
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
from scipy import sparse
from scipy.stats import wilcoxon
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.preprocessing import MultiLabelBinarizer, normalize

from _common import load, peak_memory, side_by_side
from pmlkit import ClearPML
from pmlkit.data import add_noise, data_home, load_digit_strips, make_pml, train_test_rows
from pmlkit.methods import all_methods
from pmlkit.methods.clear_pml import cell_passes, confidence_rounds, estimator
from pmlkit.methods.clear_pml.feature_weighting import possible_weightings
from pmlkit.methods.clear_pml.label_correlations import LabelCorrelations
from pmlkit.methods.clear_pml.primal_ridge import LinearKernel
from pmlkit.methods.thresholds import fit_threshold
from pmlkit.metrics import cleaning_auc, evaluate
from pmlkit.numerics.content import content_folds

SETS = (
    *("flags", "foodtruck", "emotions", "genbase", "cal500", "medical", "lost_pll", "scene", "yeast", "slashdot"),
    *("enron", "YeastCC", "YeastMF", "corel5k", "tmc2007_500", "bibtex", "YeastBP", "corel16k001", "delicious"),
)
NOISES = (("uniform", 0.5), ("uniform", 1.0), ("uniform", 2.0), ("correlated", 1.0), ("confusable", 1.0))
GOOD = {"average_precision": 1, "cleaning_auc": 1, "hamming_loss": -1, "micro_f1": 1}
GOOD |= {"ranking_loss": -1, "one_error": -1, "coverage": -1}
OWN_FEATURES = "features"
RECOMMENDED_LFC = {"fit_intercept": True, "alpha_scale": "frobenius", "threshold": "size", "random_state": 0}


def one_vs_rest(X, Y, X_new, C=1.0):
    """Return the probabilities of one-vs-rest logistic regression on the candidates."""
    scores = np.empty((X_new.shape[0], Y.shape[1]))
    for k in range(Y.shape[1]):
        y = Y[:, k]
        if y.min() == y.max():
            scores[:, k] = y[0]
        else:
            model = LogisticRegression(solver="liblinear", C=C).fit(X, y)
            scores[:, k] = model.predict_proba(X_new)[:, 1]
    return scores


def configurations(names):
    """Yield name, data, kind and ratio of noise."""
    for name in names:
        data = load(name)
        if data is None:
            continue
        own = (data.truth != data.Y).nnz > 0
        for kind, ratio in [("own", 0.0)] if own else NOISES:
            yield name, data, kind, ratio


def split(data, kind, ratio, seed):
    """Return training rows with their candidates and truth, and test rows with their truth."""
    train, test = train_test_rows(data.n_samples, random_state=seed)
    X, truth = data.X[train], data.truth[train]
    if kind == "own":
        Y = data.Y[train]
    else:
        Y = add_noise(truth, ratio, kind, random_state=seed, X=X if kind == "confusable" else None)
    return X, Y, truth, data.X[test], data.truth[test]


def measure_clear(X, Y, truth, X_test, truth_test, **options):
    """Return the measures of ClearPML, each with its own threshold, and of logistic regression on its features."""
    start = time.process_time()
    model = ClearPML(**options).fit(X, Y)
    seconds = time.process_time() - start
    scores = model.decision_function(X_test)
    found = evaluate(truth_test, scores, model.predict(X_test))
    labelled = np.diff(Y.indptr) > 0
    rule = fit_threshold(
        "f1", model.out_of_fold_scores_[labelled], Y[labelled], model.label_confidence_.data, natural_cut=0.5
    )
    found["micro_f1"] = evaluate(truth_test, scores, rule.label_sets(scores))["micro_f1"]
    found["cleaning_auc"] = cleaning_auc(truth, Y, model.label_confidence_)
    return found | {"seconds": seconds}, model


def measure_logistic(X, Y, truth, X_test, truth_test, C=1.0):
    """Return the measures of one-vs-rest logistic regression on unit rows; 5-fold probabilities judge candidates."""
    labelled = np.diff(Y.indptr) > 0
    rows, dense = normalize(X)[labelled], Y[labelled].toarray()
    start = time.process_time()
    scores = one_vs_rest(rows, dense, normalize(X_test), C)
    seconds = time.process_time() - start
    found = evaluate(truth_test, scores, scores >= 0.5)
    judged = np.zeros(dense.shape)
    fold = content_folds(rows, 5)
    for k in range(5):
        judged[fold == k] = one_vs_rest(rows[fold != k], dense[fold != k], rows[fold == k], C)
    found["cleaning_auc"] = cleaning_auc(truth[labelled], Y[labelled], sparse.csr_array(judged * dense))
    return found | {"seconds": seconds}


def measure_logistic_on_features(model, X, Y, X_test, truth_test):
    """Return the measures on new rows of logistic regression on ClearPML's own features."""
    labelled = np.diff(Y.indptr) > 0
    kernel, view = model._kernel, model._weighting
    if isinstance(kernel, LinearKernel):
        rows, new = (kernel(view.transform(part)) for part in (X[labelled], X_test))
        scores = one_vs_rest(rows, Y[labelled].toarray(), new)
        return evaluate(truth_test, scores, scores >= 0.5)
    own = kernel(kernel.landmarks)
    values, vectors = np.linalg.eigh(own + 1e-9 * len(own) * np.eye(len(own)))
    kept = values > 1e-6 * values[-1]
    whiten = vectors[:, kept] / np.sqrt(values[kept])
    rows, new = (kernel.times(view.transform(part), whiten) for part in (X[labelled], X_test))
    scores = one_vs_rest(rows, Y[labelled].toarray(), new)
    return evaluate(truth_test, scores, scores >= 0.5)


def measure_method(method, X, Y, truth, X_test, truth_test):
    """Return the measures of any method."""
    start = time.process_time()
    model = method.fit(X, Y)
    seconds = time.process_time() - start
    found = evaluate(truth_test, model.decision_function(X_test), model.predict(X_test))
    found["cleaning_auc"] = cleaning_auc(truth, Y, model.label_confidence_)
    return found | {"seconds": seconds}


def collect(names, splits, rivals, out: Path) -> dict[tuple[str, str, float], dict[str, list[dict[str, float]]]]:
    """Measure every method on every configuration and split; what is in the file already is not measured again."""
    cells: dict[tuple[str, str, float, int, str], dict[str, float]] = {}
    if out.exists():
        with out.open(newline="") as stream:
            for row in csv.DictReader(stream):
                place = row["data"], row["noise"], float(row["ratio"]), int(row["split"]), row["method"]
                cells[place] = {name: float(row[name]) for name in (*GOOD, "seconds")}
    fields = ("data", "noise", "ratio", "split", "method", *GOOD, "seconds")
    with out.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, fields, extrasaction="ignore")
        if not cells:
            writer.writeheader()
        for name, data, kind, ratio in configurations(names):
            for seed in range(splits):
                wanted = ["ClearPML", "logistic", "logistic C=10", *rivals]
                missing = [method for method in wanted if (name, kind, ratio, seed, method) not in cells]
                if not missing:
                    continue
                parts = split(data, kind, ratio, seed)
                X, Y, _, X_test, truth_test = parts
                clear, model = measure_clear(*parts)
                for method in missing:
                    if method == "ClearPML":
                        found = clear
                    elif method == "logistic":
                        found = measure_logistic(*parts)
                    elif method == "logistic C=10":
                        found = measure_logistic(*parts, C=10.0)
                    elif method == OWN_FEATURES:
                        found = measure_logistic_on_features(model, X, Y, X_test, truth_test)
                    else:
                        options = RECOMMENDED_LFC if method == "PMLLFC" else {}
                        found = measure_method(all_methods()[method](**options), *parts)
                    cells[name, kind, ratio, seed, method] = {key: found.get(key, np.nan) for key in (*GOOD, "seconds")}
                    place = dict(zip(fields, (name, kind, ratio, seed, method), strict=False))
                    writer.writerow(place | cells[name, kind, ratio, seed, method])
                    stream.flush()
    table: dict[tuple[str, str, float], dict[str, list[dict[str, float]]]] = {}
    for (name, kind, ratio, _, method), found in cells.items():
        if name in names:
            table.setdefault((name, kind, ratio), {}).setdefault(method, []).append(found)
    return table


def means(table, method, name):
    """Return one figure a configuration: the mean over its splits; "better": of the two logistic regressions."""
    if method == "better":
        both = [means(table, one, name) for one in ("logistic", "logistic C=10")]
        return GOOD[name] * np.maximum(*(GOOD[name] * values for values in both))
    return np.array([np.mean([found[name] for found in methods[method]]) for methods in table.values()])


def quality(table, rivals) -> None:
    """Print the comparison with logistic regression and with the rivals."""
    print("configuration                 average precision     cleaning AUC        Hamming loss     micro-F1      CPU")
    names = ("average_precision", "cleaning_auc", "hamming_loss", "micro_f1")
    ours, plain = ([means(table, method, name) for name in names] for method in ("ClearPML", "better"))
    seconds = means(table, "ClearPML", "seconds") / np.maximum(means(table, "logistic", "seconds"), 1e-9)
    places = list(table)
    for i in np.argsort(ours[0] - plain[0]):
        name, kind, ratio = places[i]
        cells = "  ".join(f"{ours[k][i]:.4f} ({ours[k][i] - plain[k][i]:+.4f})" for k in range(4))
        print(f"{name:12s} {kind:10s} {ratio:3.1f}  {cells}  {seconds[i]:4.1f}x")
    print(f"\nAgainst the better of one-vs-rest logistic regression with C = 1 and 10, {len(table)} configurations:")
    for name, sign in GOOD.items():
        gain = sign * (means(table, "ClearPML", name) - means(table, "better", name))
        p = wilcoxon(gain).pvalue if np.any(gain) else 1.0
        print(
            f"  {name:18s} better on {np.mean(gain > 0):4.0%}, as good on {np.mean(gain >= 0):4.0%}, "
            f"mean gain {gain.mean():+.4f}, worst {gain.min():+.4f}, Wilcoxon p = {p:.1e}"
        )
    print(f"  CPU time: median {np.median(seconds):.1f} times one fit with C = 1 and without confidences")
    if rivals:
        print("\nMean rank over the configurations (1 is best) and mean average precision")
        methods = ["ClearPML", "logistic", *rivals]
        for name in ("hamming_loss", "ranking_loss", "one_error", "coverage", "average_precision"):
            values = np.array([GOOD[name] * means(table, method, name) for method in methods])
            ranks = (values[:, None, :] < values[None, :, :]).sum(axis=1) + 1.0
            line = "  ".join(f"{method} {rank:.2f}" for method, rank in zip(methods, ranks.mean(axis=1), strict=True))
            print(f"  {name:18s} {line}")
        for method in methods:
            print(f"  {method:14s} {means(table, method, 'average_precision').mean():.4f}")


ABLATIONS = {
    "all of it": ({}, {}),
    "no calibration per label": ({"rounds.fit_calibration": lambda scores, target, power=1.0: _Identity()}, {}),
    "no label correlations": (
        {"rounds.fit_label_correlations": lambda log_odds, target: _identity_map(log_odds.shape[1])},
        {},
    ),
    "high estimates not shrunk": ({"rounds.shrunk_count": lambda n_true, n_candidates: n_true}, {}),
    "no competition": ({"rounds.COMPETITION": 0.0}, {}),
    "every row has a true label": ({}, {"every_row_has_a_label": True}),
    "never one label per row": ({}, {"mode": "several"}),
    "candidates alone (no confidences)": ({"passes.KEPT": 1.0}, {}),
    "confidences alone": ({"passes.KEPT": 0.0}, {}),
    "one weighting of the features": ({"estimator.possible_weightings": lambda X: possible_weightings(X)[:1]}, {}),
    "1,000 landmarks at most": ({}, {"n_landmarks": 1000}),
    "500 landmarks at most": ({}, {"n_landmarks": 500}),
}


class _Identity:
    def probabilities(self, scores):
        return np.clip(scores, 1e-6, 1 - 1e-6)


def _identity_map(n_labels):
    zeros = np.zeros(n_labels)
    return LabelCorrelations(zeros, np.ones(n_labels), np.zeros((n_labels, n_labels)), zeros)


def ablation(names, splits) -> None:
    """Print what each step brings: all of it, and each one off in turn."""
    measures = ("average_precision", "cleaning_auc", "hamming_loss", "micro_f1")
    print("step".ljust(38) + "".join(f"{measure:>19s}" for measure in measures))
    modules = {"rounds": confidence_rounds, "passes": cell_passes, "estimator": estimator}
    for title, (changes, options) in ABLATIONS.items():
        found = []
        with ExitStack() as patches:
            for place, value in changes.items():
                module, name = place.split(".")
                patches.enter_context(mock.patch.object(modules[module], name, value))
            for parts in _ablation_parts(names, splits):
                measured, _ = measure_clear(*parts, **options)
                found.append([measured[measure] for measure in measures])
        print(f"  {title:36s}" + "".join(f"{value:19.4f}" for value in np.mean(found, axis=0)), flush=True)


def _ablation_parts(names, splits):
    for name in names:
        text = text_set(name)
        for seed in range(splits):
            if text is not None:
                yield split(text, *_noise_of(name), seed)
            else:
                for _, data, kind, ratio in configurations([name]):
                    yield split(data, kind, ratio, seed)


REAL_TEXTS = ("so_emotions", "so_emotions_all", "open_relations_crowd1", "movies_two_catalogues")
TEXTS = (*REAL_TEXTS, "docstrings", "packages", "packages_wide", "packages_all", "package_sections")


def text_set(name):
    """Return texts as TF-IDF features with their candidates and true labels; None where there is no such set."""
    if name in MADE_NOISE:
        texts, candidates = MADE_NOISE[name]()
        truth = candidates
        if not texts:
            return None
    else:
        path = data_home() / "realnoise" / f"{name}.csv"
        if not path.is_file():
            return None
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        texts = [row["text"] for row in rows]
        candidates, truth = (
            [[label for label in row[column].split(";") if label] for row in rows] for column in ("candidates", "truth")
        )
    X = sparse.csr_array(TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts))
    X.sort_indices()
    labels = MultiLabelBinarizer(sparse_output=True).fit(candidates)
    Y, T = (sparse.csr_array(labels.transform(sets)) for sets in (candidates, truth))
    return SimpleNamespace(X=X, Y=Y, truth=T, n_samples=X.shape[0])


def _noise_of(name):
    return ("uniform", 0.1) if name in MADE_NOISE else ("own", 0.0)


def _docstrings(n_samples: int = 6600, n_labels: int = 155) -> tuple[list[str], list[set[str]]]:
    """Return docstrings of installed packages with the names of the functions that the code below them calls."""
    texts, sets = [], []
    for package in ("joblib", "numpy", "scipy", "sklearn"):
        folder = Path(importlib.import_module(package).__file__).parent
        for path in sorted(path for path in folder.rglob("*.py") if "tests" not in path.parts):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if not isinstance(node, ast.FunctionDef | ast.ClassDef) or len(ast.get_docstring(node) or "") < 80:
                    continue
                calls = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
                texts.append(ast.get_docstring(node))
                sets.append({getattr(call, "attr", None) or getattr(call, "id", "") for call in calls} - {""})
    common = Counter(name for names in sets for name in names).most_common(n_labels + 10)[10:]
    names = {name for name, _ in common}
    kept = [i for i in range(len(texts)) if sets[i] & names]
    kept = np.random.default_rng(0).permutation(kept)[:n_samples]
    return [texts[i] for i in kept], [sets[i] & names for i in kept]


def _packages(n_samples: int, n_labels: int, field: str = "Tag") -> tuple[list[str], list[set[str]]]:
    """Return descriptions of Debian's packages with their most frequent labels; nothing where there is no index."""
    if shutil.which("apt-cache") is None:
        return [], []
    index = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, errors="replace").stdout
    found: dict[str, tuple[str, set[str]]] = {}
    for block in index.replace("\n ", " ").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if field in fields and "Description" in fields:
            tags = {tag.strip() for tag in fields[field].split(",") if "{" not in tag and "}" not in tag}
            # One package of each description: many differ by a version in their name alone.
            name = fields["Package"] if field == "Tag" else ""  # which often tells the section by itself
            found.setdefault(fields["Description"], (f"{name} {fields['Description']}", tags))
    chosen = [found[key] for key in np.random.default_rng(0).permutation(sorted(found))[:n_samples]]
    common = {tag for tag, _ in Counter(tag for _, tags in chosen for tag in tags).most_common(n_labels)}
    kept = [(text, tags & common) for text, tags in chosen if tags & common]
    return [text for text, _ in kept], [tags for _, tags in kept]


MADE_NOISE = {
    "docstrings": _docstrings,
    "packages": partial(_packages, 8_750, 155),
    "packages_wide": partial(_packages, 15_000, 578),
    "packages_all": partial(_packages, 60_000, 600),
    "package_sections": partial(_packages, 30_000, 20, "Section"),
}


def text(names, splits) -> None:
    """Print ClearPML on real noise and wide text against the better of logistic regression with C = 1 and 10."""
    lines = []
    for name in names:
        data = text_set(name)
        if data is None:
            continue
        kind, ratio = _noise_of(name)
        ours, best = [], []
        for seed in range(splits):
            parts = split(data, kind, ratio, seed)
            clear, model = measure_clear(*parts)
            plain = [measure_logistic(*parts, C=C) for C in (1.0, 10.0)]
            ours.append([clear["average_precision"], clear["cleaning_auc"], clear["seconds"]])
            best.append([max(p["average_precision"] for p in plain), max(p["cleaning_auc"] for p in plain)])
            best[-1].append(plain[0]["seconds"])
        (ap, auc, seconds), (ap_lr, auc_lr, seconds_lr) = np.mean(ours, axis=0), np.mean(best, axis=0)
        lines.append(
            (
                min(ap - ap_lr, auc - auc_lr),
                f"  {name:22s} {ap:.4f} ({ap - ap_lr:+.4f})  {auc:.4f} ({auc - auc_lr:+.4f})"
                f"  {seconds / seconds_lr:5.1f}x  {model.share_without_truth_:.2f}  {model.empty_rows_}",
            )
        )
    print("text set                 average precision  cleaning AUC      CPU (C=1)  without truth, empty rows")
    print("\n".join(line for _, line in sorted(lines)))


def stability(names, deletions: int = 20) -> None:
    """Print how far average precision moves when 0.5 % of the candidates are deleted, 20 times."""
    print(
        "range of average precision over deletions of 0.5 % of the candidates, and of the weight of one label per row"
    )
    for name, parts in [(data, parts) for data in names for parts in _ablation_parts([data], 1)]:
        X, Y, _, X_test, truth_test = parts
        found, weights = [], []
        for seed in range(deletions):
            fewer = Y.copy()
            gone = np.random.default_rng(seed).choice(fewer.nnz, max(1, fewer.nnz // 200), replace=False)
            fewer.data[gone] = 0
            fewer.eliminate_zeros()
            kept = np.diff(fewer.indptr) > 0 if (np.diff(Y.indptr) > 0).all() else slice(None)
            model = ClearPML().fit(X[kept], fewer[kept])
            found.append(evaluate(truth_test, model.decision_function(X_test))["average_precision"])
            weights.append(model.single_weight_)
        print(f"  {name:22s} {np.ptp(found):.4f}  {min(weights):.2f}-{max(weights):.2f}", flush=True)


def semi(names, splits) -> None:
    """Print what rows without candidates bring when only 10 % of the rows have candidates (50 % uniform noise)."""
    print("average precision with 10 % labelled rows: those alone, and with the other rows as well")
    for name in names:
        data = load(name)
        if data is None:
            continue
        pairs = []
        for seed in range(splits):
            kind, ratio = ("own", 0.0) if (data.truth != data.Y).nnz else NOISES[0]
            X, Y, _, X_test, truth_test = split(data, kind, ratio, seed)
            labelled = np.random.default_rng(seed).permutation(X.shape[0]) < X.shape[0] // 10
            some = sparse.csr_array(Y.multiply(labelled[:, None]))
            some.eliminate_zeros()
            pairs.append(
                [
                    evaluate(truth_test, ClearPML().fit(rows, given).decision_function(X_test))["average_precision"]
                    for rows, given in ((X[labelled], Y[labelled]), (X, some))
                ]
            )
        alone, together = np.mean(pairs, axis=0)
        print(f"  {name:12s} {alone:.4f}  {together:.4f}  ({together - alone:+.4f})", flush=True)


def timing(names) -> None:
    """Print processor seconds of one fit with confidences against one fit of logistic regression, taking turns."""
    ratios = []
    for name in names:
        X, Y = _rows_to_time(name)
        if X is None:
            continue
        labelled = np.diff(Y.indptr) > 0
        rows, dense = normalize(X)[labelled], Y[labelled].toarray()
        seconds: dict[str, list[float]] = {"ClearPML": [], "logistic": []}
        for _ in range(1 if dense.size > 2_000_000 else 5):
            for method, job in (
                ("ClearPML", lambda X=X, Y=Y: ClearPML().fit(X, Y)),
                ("logistic", lambda rows=rows, dense=dense: one_vs_rest(rows, dense, rows[:1])),
            ):
                start = time.process_time()
                job()
                seconds[method].append(time.process_time() - start)
        ours, plain = np.median(seconds["ClearPML"]), np.median(seconds["logistic"])
        ratios.append(ours / plain)
        shape = f"{X.shape[0]:6d} x {X.shape[1]:5d} x {Y.shape[1]:3d}"
        print(f"  {name:22s} {shape} {ours:7.3f} s {plain:7.3f} s  {ratios[-1]:5.2f}x", flush=True)
    print(f"median {np.median(ratios):.2f}x over {len(ratios)} data sets (processor time)")


def _rows_to_time(name):
    """Return rows and candidates of one split, with 50 % noise or the set's own."""
    if name == "digit_strips":
        strips = load_digit_strips(2000, random_state=0)
        return strips.X, strips.Y
    if name in TEXTS:
        texts = text_set(name)
        return (None, None) if texts is None else split(texts, *_noise_of(name), 0)[:2]
    for _, data, kind, ratio in configurations([name]):
        return split(data, kind, ratio, 0)[:2]
    return None, None


def large(n_rows: int = 1_000_000) -> None:
    """Print time and memory of a million sparse rows against one stochastic pass of one-vs-rest logistic regression."""
    data = make_pml(n_rows, n_features=1000, n_labels=30, density=0.01, random_state=0)

    def passes():
        dense = data.Y.toarray()
        for k in range(dense.shape[1]):
            SGDClassifier(loss="log_loss", max_iter=1, tol=None, random_state=0).fit(data.X, dense[:, k])

    seconds = side_by_side({"ClearPML": lambda: ClearPML().fit(data.X, data.Y), "SGD": passes}, rounds=1)
    memory = peak_memory(lambda: ClearPML().fit(data.X, data.Y))
    print(f"{n_rows:,} x 1,000, 30 labels: ClearPML {seconds['ClearPML']:.0f} s, one SGD pass {seconds['SGD']:.0f} s, ")
    print(f"ratio {seconds['ClearPML'] / seconds['SGD']:.1f}, peak {memory:.1f} GB beyond the data")


def main() -> None:
    """Run the parts that the command line names."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["quality"])
    parser.add_argument("--data", default=",".join(SETS))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument(
        "--rivals", default="", help="e.g. PMLLFC,MLkNN; features: logistic regression on ClearPML's; paper"
    )
    parser.add_argument("--out", type=Path, default=Path("flagship-cells.csv"))
    options = parser.parse_args()
    names = tuple(options.data.split(","))
    paper = "PMLLFC,RankSVM,MLkNN,PMLLRS,FPML,DRAMA,ParticleVLS"
    rivals = [name for name in (paper if options.rivals == "paper" else options.rivals).split(",") if name]
    for part in options.parts:
        if part == "quality":
            quality(collect(names, options.splits, rivals, options.out), rivals)
        elif part == "text":
            text([name for name in names if name in TEXTS] or TEXTS, options.splits)
        elif part == "stability":
            stability(names)
        elif part == "ablation":
            ablation(names, options.splits)
        elif part == "semi":
            semi(names, options.splits)
        elif part == "time":
            timing(names if names != SETS else ("digit_strips", *REAL_TEXTS, *SETS))
        elif part == "large":
            large()
        else:
            parser.error(f"no part {part!r}: quality, text, stability, ablation, semi, time or large")


if __name__ == "__main__":
    main()
