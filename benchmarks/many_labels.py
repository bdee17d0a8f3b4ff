"""ClearPML and PMLLFC on thousands of labels: time against one-vs-rest SGD, memory, and quality against two baselines.

    python benchmarks/many_labels.py --rows 100000 --features 100000 --labels 10000

The data (benchmarks/_many_labels.py) are sparse, with label frequencies that follow a power law. Times are
processor times of one run each; the pass of `SGDClassifier` is timed on labels that are evenly spread over the
labels ordered by frequency, and multiplied up. Nothing is tuned on the test rows.
"""

import argparse
import resource
import time

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from _many_labels import many_label_texts
from pmlkit import PMLLFC, ClearPML
from pmlkit.data import PMLDataset


def main() -> None:
    """Parse the command line and print one line per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=10_000)
    parser.add_argument("--test-rows", type=int, default=10_000)
    parser.add_argument("--alpha", type=float, nargs="*", default=[10.0, 1.0], help="of PMLLFC (default: 10 and 1)")
    parser.add_argument("--max-rank", type=int, default=256)
    parser.add_argument("--sgd-labels", type=int, default=50, help="labels on which the SGD pass is timed; 0: none")
    args = parser.parse_args()

    data = many_label_texts(args.rows + args.test_rows, args.features, args.labels)
    train, test = data.subset(slice(0, args.rows)), data.subset(slice(args.rows, None))
    counts = np.sort(np.bincount(train.Y.indices, minlength=args.labels))
    print(f"{args.rows:,} rows, {args.features:,} features, {args.labels:,} labels, {train.Y.nnz:,} candidates")
    print(f"rows per label: least {counts[0]}, median {int(np.median(counts))}, most {counts[-1]:,}")

    frequency = np.argsort(-np.bincount(train.Y.indices, minlength=args.labels), kind="stable")[:10]
    show("label frequency", np.tile(frequency, (args.test_rows, 1)), test, 0.0)
    started = time.process_time()
    for k, top in neighbour_labels(train, test, (10, 50)).items():
        show(f"{k} nearest neighbours", top, test, time.process_time() - started)
    started = time.process_time()
    show("linear, approximate ridge", linear_labels(train, test), test, time.process_time() - started)
    started = time.process_time()
    clear = ClearPML().fit(train.X, train.Y)
    fitted = time.process_time() - started
    seconds = show_model("ClearPML", clear, test, fitted)
    confidence = clear.label_confidence_
    row = np.repeat(np.arange(args.rows), np.diff(confidence.indptr))
    is_true = np.asarray(train.truth.tocsr()[row, confidence.indices]).ravel() > 0
    print(
        f"  cleaning AUC {roc_auc_score(is_true, confidence.data):.3f}, mean confidence {confidence.data.mean():.3f} "
        f"(true: {is_true.mean():.3f}), prediction {seconds:.1f} s; peak memory of the process {peak():.1f} GB"
    )
    for alpha in args.alpha:
        started = time.process_time()
        model = PMLLFC(alpha=alpha, max_rank=args.max_rank, random_state=0).fit(train.X, train.Y)
        fitted = time.process_time() - started
        seconds = show_model(f"PMLLFC(alpha={alpha:g}), rank {model.rank_}", model, test, fitted)
        print(
            f"  gap {model.optimality_gap_:.2g}, {model.n_iter_} iterations, prediction {seconds:.1f} s; peak memory "
            f"of the process {peak():.1f} GB", flush=True,
        )  # fmt: skip
    if args.sgd_labels:
        print(f"one-vs-rest SGDClassifier, one pass: {sgd_seconds(train, args.sgd_labels):,.0f} s")


def show_model(name: str, model: ClearPML | PMLLFC, test: PMLDataset, fitted: float) -> float:
    """Print how good a model's ten best labels are, and return how long they took."""
    started = time.process_time()
    names, _ = model.predict_top_k(test.X, 10)
    seconds = time.process_time() - started
    show(name, np.char.partition(names.astype(str), "_")[:, :, 2].astype(int), test, fitted)
    return seconds


def show(name: str, top: np.ndarray, test: PMLDataset, seconds: float) -> None:
    """Print precision at 1 and recall at 10 of the true labels."""
    truth = test.truth.tolil()
    rows = np.repeat(np.arange(len(top)), top.shape[1])
    hits = np.asarray(truth[rows, top.ravel()].todense()).reshape(top.shape) > 0
    sizes = np.diff(test.truth.indptr)
    known = sizes > 0
    recall = (hits[known].sum(axis=1) / sizes[known]).mean()
    print(
        f"{name:32} precision at 1 {hits[known, 0].mean():.3f}, recall at 10 {recall:.3f}; {seconds:,.0f} s", flush=True
    )


def neighbour_labels(train: PMLDataset, test: PMLDataset, numbers: tuple[int, ...]) -> dict[int, np.ndarray]:
    """Return the ten labels with the most votes of the k nearest rows (cosine), votes weighted by similarity."""
    X, new = normalize(train.X), normalize(test.X)
    result: dict[int, list[np.ndarray]] = {k: [] for k in numbers}
    transposed = X.T.tocsr()
    for first in range(0, new.shape[0], 500):
        similar = (new[first : first + 500] @ transposed).toarray()
        nearest = np.argpartition(-similar, max(numbers), axis=1)[:, : max(numbers)]
        order = np.argsort(-np.take_along_axis(similar, nearest, axis=1), axis=1)
        nearest = np.take_along_axis(nearest, order, axis=1)
        weight = np.take_along_axis(similar, nearest, axis=1)
        for k in numbers:
            indptr = np.arange(0, k * len(nearest) + 1, k)
            vote = sparse.csr_array((weight[:, :k].ravel(), nearest[:, :k].ravel(), indptr), shape=similar.shape)
            scores = (vote @ train.Y).toarray()
            result[k].append(np.argsort(-scores, axis=1, kind="stable")[:, :10])
    return {k: np.concatenate(parts) for k, parts in result.items()}


def linear_labels(train: PMLDataset, test: PMLDataset, *, penalty: float = 0.3, n_directions: int = 100) -> np.ndarray:
    """Return the ten best labels by ridge regression on the candidates, X'X replaced by diagonal plus low rank.

    No array of features by labels is made; the work follows the candidates. It shows what linear scores reach here.
    """
    X, new = normalize(train.X).astype(np.float32), normalize(test.X).astype(np.float32)
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel()
    scale = sparse.diags_array((1.0 / np.sqrt(squares + penalty)).astype(np.float32))
    X, new = sparse.csr_array(X @ scale), sparse.csr_array(new @ scale)
    _, values, directions = randomized_svd(X, n_directions, n_iter=2, random_state=0)
    shrinkage = values**2 / (1.0 + values**2)
    words = sparse.csr_array(X.T @ train.Y.astype(np.float32))
    topics = shrinkage[:, None] * ((train.Y.T @ (X @ directions.T)).T)
    best = []
    for first in range(0, new.shape[0], 500):
        some = new[first : first + 500]
        scores = (some @ words).toarray() - (some @ directions.T) @ topics
        best.append(np.argsort(-scores, axis=1, kind="stable")[:, :10])
    return np.concatenate(best)


def sgd_seconds(train: PMLDataset, n_labels: int) -> float:
    """Return the processor time of one pass of SGDClassifier over the rows for every label."""
    X = normalize(train.X)
    columns = train.Y.tocsc()
    order = np.argsort(np.bincount(train.Y.indices, minlength=train.Y.shape[1]), kind="stable")
    order = order[-np.count_nonzero(np.diff(columns.indptr)) :]
    chosen = order[np.linspace(0, len(order) - 1, n_labels).astype(int)]
    started = time.process_time()
    for k in chosen:
        target = columns[:, [k]].toarray()[:, 0]
        SGDClassifier(loss="log_loss", max_iter=1, tol=None, random_state=0).fit(X, target)
    return (time.process_time() - started) / n_labels * len(order)


def peak() -> float:
    """Return the peak memory in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
