"""Fits past one machine's memory: same answers, memory, speed on several workers, linear time, medium tables.

    python benchmarks/scale.py same
    python benchmarks/scale.py memory --rows 600000 --limit 400MB
    python benchmarks/scale.py speed --rows 2000000
    python benchmarks/scale.py linear --rows 100000 300000 1000000
    python benchmarks/scale.py medium --rows 1000000 --labels 50

Each prints what was measured beside what is aimed at. Workers are processes with one thread each, linear algebra has
one thread (set OMP_NUM_THREADS=1), and ratios are of one run. Rows are made by the workers, block by block.
"""

import argparse
import resource
import sys
import time
from functools import partial

import dask.array as da
import numpy as np
from dask import delayed
from distributed import Client, LocalCluster
from scipy import sparse

from _common import load, noisy_split
from pmlkit import ClearPML
from pmlkit.blocks import RowBlocks
from pmlkit.data import load_digit_strips, make_pml

WORDS = 20  # per row


def texts(block: int, n_rows: int, n_words: int, n_labels: int) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Make rows of words: a few of them belong to the row's topics, whose labels are candidates beside false ones."""
    rng = np.random.default_rng(block)
    topics = rng.integers(0, n_labels, (n_rows, 2))
    words = (rng.zipf(1.3, size=(n_rows, WORDS)) * 7919) % n_words
    for k in range(2):
        words[:, 4 * k : 4 * k + 4] = (topics[:, k, None] * 13 + rng.integers(0, 13, (n_rows, 4))) % n_words
    X = sparse.csr_array((np.ones(words.size), (np.repeat(np.arange(n_rows), WORDS), words.ravel())), (n_rows, n_words))
    X.sum_duplicates()
    labels = np.hstack([topics, rng.integers(0, n_labels, (n_rows, 1))])
    Y = sparse.csr_array((np.ones(labels.size), (np.repeat(np.arange(n_rows), 3), labels.ravel())), (n_rows, n_labels))
    Y.sum_duplicates()
    Y.data[:] = 1.0
    return X, Y


def part_of(which: int, *args: int) -> sparse.csr_array:
    """Return the rows (0) or the candidates (1) of a block."""
    return texts(*args)[which]


def lazy_texts(n_rows: int, n_words: int, n_labels: int, block: int = 50_000) -> list[da.Array]:
    """Return features and candidates as Dask arrays of sparse blocks, which the workers make."""
    found = []
    for which, width in ((0, n_words), (1, n_labels)):
        meta = sparse.csr_array((0, width), dtype=np.float64)
        parts = [
            da.from_delayed(
                delayed(part_of)(which, i, min(block, n_rows - first), n_words, n_labels),
                shape=(min(block, n_rows - first), width), dtype=np.float64, meta=meta,
            )
            for i, first in enumerate(range(0, n_rows, block))
        ]  # fmt: skip
        found.append(da.concatenate(parts))
    return found


def cluster(n_workers: int, limit: str = "auto") -> LocalCluster:
    """Start workers in processes of their own, with one thread each."""
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, memory_limit=limit, dashboard_address=None, host="127.0.0.1"
    )


def peak_megabytes() -> float:
    """Return the largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def on_dask(X: da.Array, Y: da.Array, client: Client, **params: object) -> tuple[ClearPML, float]:
    """Fit on a cluster; return the model and the seconds."""
    start = time.perf_counter()
    model = ClearPML(**params).fit(RowBlocks(X, Y, client=client))
    return model, time.perf_counter() - start


def same(args: argparse.Namespace) -> None:
    """Compare fits on 1, 2 and 4 workers and several block sizes with the fit in memory."""
    strips = load_digit_strips(1500, random_state=0)
    made = make_pml(2000, n_features=40, n_labels=8, random_state=0)
    sets = {"digit strips": (strips.X, strips.Y), "make_pml": (made.X, made.Y)}
    if (tmc := load("tmc2007_500")) is not None:
        sets["tmc2007_500"] = noisy_split(tmc, 0)[:2]
    worst = 0.0
    for n_workers in args.workers:
        with cluster(n_workers) as workers, Client(workers) as client:
            for name, (X, Y) in sets.items():
                whole = ClearPML().fit(X, Y)
                n_rows = X.shape[0]
                for block in (n_rows // 2 + 1, n_rows // 7 + 1):
                    dense = np.asarray(X.todense()) if sparse.issparse(X) else X
                    x, y = da.from_array(dense, (block, -1)), da.from_array(np.asarray(Y.todense()), (block, -1))
                    if sparse.issparse(X):
                        x = x.map_blocks(sparse.csr_array)
                    model, _ = on_dask(x, y, client)
                    gap = np.abs(model.label_confidence_.compute().toarray() - whole.label_confidence_.toarray()).max()
                    held_out = np.nan_to_num(model.out_of_fold_scores_.compute() - whole.out_of_fold_scores_)
                    gap = max(gap, np.abs(held_out).max())
                    worst = max(worst, gap)
                    print(f"  {name}, {n_workers} workers, blocks of {block} rows: differs by {gap:.1e}", flush=True)
    print(f"same answers: largest difference {worst:.1e} (aim: at most 1e-6)")


def memory(args: argparse.Namespace) -> None:
    """Fit data several times as large as the workers' memory; report the workers' and the client's peaks."""
    with cluster(2, args.limit) as workers, Client(workers) as client:
        X, Y = lazy_texts(args.rows, args.words, args.labels)
        limits = [worker["memory_limit"] for worker in client.scheduler_info()["workers"].values()]
        block = part_of(0, 0, 1000, args.words, args.labels)
        size = (block.data.nbytes + block.indices.nbytes) * args.rows / 1000
        model, seconds = on_dask(X, Y, client)
        peaks = [kb / 1024 for kb in client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss).values()]
    print(f"  {args.rows:,} rows in {seconds:.0f} s, {model.dual_coef_.shape[0]} landmarks")
    print(f"data: {size / 2**20:,.0f} MB, {size / sum(limits):.1f} times the workers' memory (aim: at least 3)")
    print(f"workers: peaks {', '.join(f'{peak:,.0f}' for peak in peaks)} MB of {limits[0] / 2**20:,.0f} MB each")
    print(f"client: peak {peak_megabytes():,.0f} MB (aim: below 500)")


def speed(args: argparse.Namespace) -> None:
    """Time one and two workers, and the fit in memory on fewer rows."""
    seconds = {}
    X, Y = lazy_texts(args.rows, args.words, args.labels)
    for n_workers in (1, 2):
        with cluster(n_workers) as workers, Client(workers) as client:
            _, seconds[n_workers] = on_dask(X, Y, client)
            print(f"  {n_workers} workers: {seconds[n_workers]:.0f} s", flush=True)
    print(f"speed: two workers are {seconds[1] / seconds[2]:.2f} times as fast as one (aim: at least 1.6)")
    blocks = [texts(i, 50_000, args.words, args.labels) for i in range(args.rows // 50_000)]
    x, y = (sparse.csr_array(sparse.vstack(part)) for part in zip(*blocks, strict=True))
    start = time.perf_counter()
    ClearPML().fit(x, y)
    alone = time.perf_counter() - start
    print(f"overhead: one worker takes {seconds[1] / alone:.2f} times the fit in memory (aim: at most 1.5)")


def linear(args: argparse.Namespace) -> None:
    """Fit the slope of the logarithm of time against that of rows."""
    seconds = []
    for n_rows in args.rows:
        with cluster(1) as workers, Client(workers) as client:
            _, taken = on_dask(*lazy_texts(n_rows, args.words, args.labels), client, n_landmarks=args.landmarks)
            (peak,) = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss).values()
        seconds.append(taken)
        print(f"  {n_rows:,} rows: {taken:.0f} s, peak of the worker {peak / 1024:,.0f} MB", flush=True)
    slope = np.polyfit(np.log(args.rows), np.log(seconds), 1)[0]
    print(f"linear: slope {slope:.2f} (aim: at most 1.1)")


def medium(args: argparse.Namespace) -> None:
    """Fit short texts in memory; report time and memory."""
    make = partial(texts, n_words=args.words, n_labels=args.labels)
    blocks = [make(i, min(50_000, args.rows - first)) for i, first in enumerate(range(0, args.rows, 50_000))]
    X, Y = (sparse.csr_array(sparse.vstack(part)) for part in zip(*blocks, strict=True))
    del blocks
    before, start = peak_megabytes(), time.process_time()
    ClearPML().fit(X, Y)
    print(
        f"{args.rows:,} texts x {args.labels} tags: {time.process_time() - start:.0f} s of processor time, "
        f"peak {peak_megabytes():,.0f} MB ({before:,.0f} before the fit; aim for 1,000,000 x 50: below 3,000)"
    )


def main() -> None:
    """Parse the command line and run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function, n_rows in ((same, None), (memory, 200_000), (speed, 200_000), (linear, None), (medium, 100_000)):
        command = commands.add_parser(function.__name__, help=function.__doc__)
        command.set_defaults(function=function)
        command.add_argument("--words", type=int, default=1000, help="features (default: 1000)")
        command.add_argument("--labels", type=int, default=50, help="labels (default: 50)")
        if n_rows:
            command.add_argument("--rows", type=int, default=n_rows, help=f"rows (default: {n_rows:,})")
        if function is same:
            command.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
        if function is memory:
            command.add_argument("--limit", default="400MB", help="memory of each of the two workers (default: 400MB)")
        if function is linear:
            command.add_argument("--rows", type=int, nargs="+", default=[50_000, 100_000, 200_000])
            command.add_argument("--landmarks", type=int, default=100, help="the same for all sizes (default: 100)")
    args = parser.parse_args()
    args.function(args)


if __name__ == "__main__":
    sys.exit(main())
