"""Fits past one machine's memory: same answers, memory, speed on several workers, linear time, medium tables.

    python benchmarks/scale.py same
    python benchmarks/scale.py memory --limit 600MB
    python benchmarks/scale.py speed --rows 2000000
    python benchmarks/scale.py linear --rows 100000 300000 1000000
    python benchmarks/scale.py model --rows 100000 200000 400000 --labels 20 80
    python benchmarks/scale.py medium --rows 1000000 --labels 50
    python benchmarks/scale.py unlabelled --splits 5

Each prints what was measured beside what is aimed at. Workers are processes with one thread each, linear algebra has
one thread (set OMP_NUM_THREADS=1), and ratios are of one run. Rows are made by the workers, block by block.
"""

import argparse
import itertools
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask import delayed
from distributed import Client, LocalCluster, wait
from scipy import sparse

from _common import load, noisy_split, slope
from _cost_model import Model, fit_cost
from pmlkit import PMLLFC, CandidateLogistic, ClearPML
from pmlkit.blocks import RowBlocks
from pmlkit.data import PMLDataset, add_noise, load_digit_strips, make_pml
from pmlkit.metrics import average_precision

WORDS = 20  # per row
METHODS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "ClearPML": lambda args: ClearPML(n_landmarks=args.landmarks),
    "CandidateLogistic": lambda args: CandidateLogistic(C=10.0, normalize="unit"),
}
# The same draws of rows in memory and in blocks: PMLLFC takes a sample of more than 6,000 rows.
COMPARED: dict[str, Callable[[], Any]] = {"ClearPML": ClearPML, "PMLLFC": partial(PMLLFC, random_state=0)}
REUSE_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "67108864", "MALLOC_TRIM_THRESHOLD_": "268435456"}  # see docs/scaling.md


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


def text_part(which: int, *args: int) -> sparse.csr_array:
    """Return the rows (0) or the candidates (1) of a block of texts."""
    return texts(*args)[which]


def measurement_part(which: int, block: int, n_rows: int, n_features: int, n_labels: int) -> np.ndarray:
    """Return measurements (0), some of which depend on the row's two topics, or the candidates (1) of a block."""
    rng = np.random.default_rng(block)
    labels = rng.integers(0, n_labels, (n_rows, 3))  # two topics and a false one
    rows = np.arange(n_rows)[:, None]
    if which:
        Y = np.zeros((n_rows, n_labels))
        Y[rows, labels] = 1.0
        return Y
    X = rng.random((n_rows, n_features))
    for topic in (0, 1):
        X[rows, (labels[:, topic, None] * 13 + np.arange(13)) % n_features] += 0.7
    return X


def lazy(part: Callable[..., Any], n_rows: int, n_columns: int, n_labels: int, block: int = 50_000) -> list[da.Array]:
    """Return features and candidates as Dask arrays, whose blocks the workers make each time."""
    found = []
    for which, width in ((0, n_columns), (1, n_labels)):
        meta = part(which, 0, 1, n_columns, n_labels)[:0]
        parts = [
            da.from_delayed(
                delayed(part)(which, i, min(block, n_rows - first), n_columns, n_labels),
                shape=(min(block, n_rows - first), width), dtype=np.float64, meta=meta,
            )
            for i, first in enumerate(range(0, n_rows, block))
        ]  # fmt: skip
        found.append(da.concatenate(parts))
    return found


def cluster(n_workers: int, limit: str = "auto") -> LocalCluster:
    """Start workers in processes of their own, with one thread each; with memory to spare they reuse it."""
    environment = dask.config.get("distributed.nanny.pre-spawn-environ")
    if limit == "auto":
        environment = {**environment, **REUSE_MEMORY}
    with dask.config.set({"distributed.nanny.pre-spawn-environ": environment}):
        return LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            host="127.0.0.1",
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
    for method, n_workers in itertools.product(args.methods, args.workers):
        fresh = COMPARED[method]
        with cluster(n_workers) as workers, Client(workers) as client:
            for name, (X, Y) in sets.items():
                whole = fresh().fit(X, Y)
                n_rows = X.shape[0]
                for block in (n_rows // 2 + 1, n_rows // 7 + 1):
                    dense = np.asarray(X.todense()) if sparse.issparse(X) else X
                    x, y = da.from_array(dense, (block, -1)), da.from_array(np.asarray(Y.todense()), (block, -1))
                    if sparse.issparse(X):
                        x = x.map_blocks(sparse.csr_array)
                    model = fresh().fit(RowBlocks(x, y, client=client))
                    gap = np.abs(model.label_confidence_.compute().toarray() - whole.label_confidence_.toarray()).max()
                    if method == "ClearPML":
                        others = np.nan_to_num(model.out_of_fold_scores_.compute() - whole.out_of_fold_scores_)
                    else:
                        others = model.decision_function(X) - whole.decision_function(X)
                    worst = max(worst, gap := max(gap, np.abs(others).max()))
                    where = f"{method}, {name}, {n_workers} workers, blocks of {block} rows"
                    print(f"  {where}: differs by {gap:.1e}", flush=True)
    print(f"same answers: largest difference {worst:.1e} (aim: at most 1e-6)")


def memory(args: argparse.Namespace) -> None:
    """Fit data several times as large as the workers' memory; report the workers' and the client's peaks."""
    with cluster(2, args.limit) as workers, Client(workers) as client:
        limits = [worker["memory_limit"] for worker in client.scheduler_info()["workers"].values()]
        width = args.words
        n_rows = args.rows or int(3.05 * sum(limits)) // (8 * width)
        X, Y = lazy(measurement_part, n_rows, width, args.labels, block=max(1, 4_000_000 // width))
        before = client.run(os.getpid)
        model, seconds = on_dask(X, Y, client, n_landmarks=args.landmarks)
        usage = client.run(resource.getrusage, resource.RUSAGE_SELF)
        alive = client.run(os.getpid) == before
    peaks = [used.ru_maxrss / 1024 for used in usage.values()]
    busy = [used.ru_utime + used.ru_stime for used in usage.values()]
    print(f"  {n_rows:,} x {width:,} numbers in {len(X.chunks[0])} blocks, {model.dual_coef_.shape[0]} landmarks")
    print(f"  {seconds:.0f} s; processor time {busy[0]:.0f} and {busy[1]:.0f} s, {time.process_time():.0f} s here")
    print(f"data: {X.nbytes / 1e6:,.0f} MB, {X.nbytes / sum(limits):.1f} times both workers' memory (aim: at least 3)")
    print(
        f"workers: peaks {', '.join(f'{peak:,.0f}' for peak in peaks)} MiB of {limits[0] / 2**20:,.0f} MiB each; "
        f"{'none' if alive else 'SOME'} restarted"
    )
    print(f"client: peak {peak_megabytes():,.0f} MiB (aim: below 500)")


def speed(args: argparse.Namespace) -> None:
    """Time one and two workers, one after the other and several times, and the fit in memory."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    X, Y = lazy(text_part, args.rows, args.words, args.labels, args.block)
    for _ in range(args.repeats):
        for n_workers, found in seconds.items():
            with cluster(n_workers) as workers, Client(workers) as client:
                x, y = client.persist([X, Y])  # the fit in memory has its rows ready, too
                wait([x, y])
                cost = fit_cost(ClearPML(), x, y, client)
            found.append(cost.wall)
            print(
                f"  {n_workers} workers: {cost.wall:.1f} s, processor time {cost.workers:.1f} s there, "
                f"{cost.client:.1f} s of the client, {cost.scheduler:.1f} s of the scheduler; {cost.n_tasks} tasks",
                flush=True,
            )
    one, two = (float(np.median(found)) for found in seconds.values())
    print(f"speed: two workers are {one / two:.2f} times as fast as one (medians; aim: at least 1.6)")
    blocks = [texts(i, args.block, args.words, args.labels) for i in range(args.rows // args.block)]
    x, y = (sparse.csr_array(sparse.vstack(part)) for part in zip(*blocks, strict=True))
    del blocks
    start, before = time.perf_counter(), time.process_time()
    ClearPML().fit(x, y)
    alone = time.perf_counter() - start
    print(f"  in memory: {alone:.0f} s, processor time {time.process_time() - before:.0f} s")
    print(f"overhead: one worker takes {one / alone:.2f} times the fit in memory (aim: at most 1.5)")


def linear(args: argparse.Namespace) -> None:
    """Fit the slope of the logarithm of time against that of rows, by the clock and by processor time."""
    costs, peaks = [], []
    for n_rows in args.rows:
        with cluster(1) as workers, Client(workers) as client:
            costs.append(
                fit_cost(METHODS[args.method](args), *lazy(text_part, n_rows, args.words, args.labels), client)
            )
            (peak,) = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss).values()
        peaks.append(peak / 1024)
        print(
            f"  {n_rows:,} rows: {costs[-1].wall:.0f} s, processor time {costs[-1].workers:.1f} s of the worker, "
            f"{costs[-1].client:.1f} s of the client, peak of the worker {peaks[-1]:,.0f} MB", flush=True,
        )  # fmt: skip
    by_clock, by_processor = (slope(args.rows, [getattr(cost, name) for cost in costs]) for name in ("wall", "workers"))
    print(f"linear: slope {by_clock:.2f} by the clock, {by_processor:.2f} by the worker's time (aim: at most 1.1)")


def model(args: argparse.Namespace) -> None:
    """Fit a cost model to processor times, and predict a billion rows x 1,000 labels on 100 workers."""
    costs = []
    with cluster(1) as workers, Client(workers) as client:
        for n_rows in args.rows:
            for n_labels in args.labels:
                x, y = client.persist(lazy(text_part, n_rows, args.words, n_labels, block=args.block))
                wait([x, y])
                costs.append(cost := fit_cost(METHODS[args.method](args), x, y, client))
                print(
                    f"  {n_rows:,} x {n_labels}: workers {cost.workers:.1f} s, client {cost.client:.1f} s, scheduler "
                    f"{cost.scheduler:.1f} s, {cost.n_passes} passes, {cost.n_tasks} tasks on {cost.n_blocks} blocks; "
                    f"to the client {sum(cost.back) / 1e6:.1f} MB (largest {max(cost.back) / 1e6:.1f}), to each "
                    f"worker {cost.out / 1e6:.1f} MB", flush=True,
                )  # fmt: skip
    found = Model.of(costs)
    print(
        f"model: seconds = {found.a:.1f} + {found.a_per_score:.1e} sampled scores + ({found.b:.2e} + "
        f"{found.b_per_label:.2e} labels) rows / workers + {found.c:.1e} tasks, with "
        f"{found.tasks_per_block:.0f} tasks per block"
    )
    for n_blocks in (20_000, 2_000):
        own, rows, tasks = found.seconds(1e9, 1000, 100, n_blocks)
        print(
            f"  1,000,000,000 x 1,000 on 100 workers, {n_blocks:,} blocks: client {own:,.0f} s, workers {rows:,.0f} s, "
            f"scheduler {tasks:,.0f} s"
        )


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


UNLABELLED_SETS = ("digit strips", "make_pml", "scene", "yeast", "tmc2007_500", "corel16k001", "slashdot")


def few_labels(name: str) -> PMLDataset | None:
    """Return a data set from which labelled, unlabelled and test rows are drawn."""
    if name == "digit strips":
        return load_digit_strips(5000, random_state=0)
    return make_pml(5000, n_features=40, n_labels=8, random_state=0) if name == "make_pml" else load(name)


def unlabelled(args: argparse.Namespace) -> None:
    """Compare fits to few labelled rows with fits to the same and many unlabelled rows, given as blocks."""
    for name in args.sets:
        if (data := few_labels(name)) is None:
            continue
        is_clean = not (data.truth != data.Y).nnz
        for n_labelled in args.labelled:
            found: dict[int, list[float]] = {times: [] for times in args.times}
            for seed in range(args.splits):
                rows = np.random.default_rng(seed).permutation(data.n_samples)
                test, given, others = np.split(rows, [data.n_samples // 5, data.n_samples // 5 + n_labelled])
                Y = data.Y[given] if not is_clean else add_noise(data.truth[given], 0.5, random_state=seed)
                for times in args.times:
                    some = others[: times * n_labelled]
                    blocks = [given, *np.array_split(some, max(1, len(some) // 1000))] if times else [given]
                    labels = [Y, *(sparse.csr_array((len(part), Y.shape[1])) for part in blocks[1:])]
                    fitted = ClearPML(empty_rows="unlabelled").fit(RowBlocks([data.X[part] for part in blocks], labels))
                    found[times].append(average_precision(data.truth[test], fitted.decision_function(data.X[test])))
            gains = np.array(found[args.times[-1]]) - found[args.times[0]]
            print(
                f"  {name}, {n_labelled} labelled, average precision with "
                + ", ".join(f"{times}: {np.mean(values):.3f}" for times, values in found.items())
                + f" unlabelled rows each; {(gains > 0).sum()} of {len(gains)} splits gain",
                flush=True,
            )


def main() -> None:
    """Parse the command line and run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function, n_rows in (
        (same, None),
        (memory, None),
        (speed, 200_000),
        (linear, None),
        (model, None),
        (medium, 100_000),
        (unlabelled, None),
    ):
        command = commands.add_parser(function.__name__, help=function.__doc__)
        command.set_defaults(function=function)
        command.add_argument("--words", type=int, default=1000, help="features (default: 1000)")
        if function is not model:
            command.add_argument("--labels", type=int, default=50, help="labels (default: 50)")
        if n_rows:
            command.add_argument("--rows", type=int, default=n_rows, help=f"rows (default: {n_rows:,})")
        if function is same:
            command.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
            command.add_argument("--methods", choices=COMPARED, nargs="+", default=list(COMPARED))
        if function is memory:
            command.set_defaults(words=2000, labels=20)
            command.add_argument("--rows", type=int, help="rows (default: three times the workers' memory)")
            command.add_argument("--limit", default="600MB", help="memory of each of the two workers (default: 600MB)")
            command.add_argument("--landmarks", type=int, default=100, help="(default: 100)")
        if function is unlabelled:
            command.add_argument("--sets", nargs="+", default=UNLABELLED_SETS, choices=UNLABELLED_SETS)
            command.add_argument("--labelled", type=int, nargs="+", default=[10, 30, 100])
            command.add_argument(
                "--times", type=int, nargs="+", default=[0, 10, 100], help="unlabelled rows per labelled"
            )
            command.add_argument("--splits", type=int, default=5)
        if function in (linear, model):
            command.add_argument("--method", choices=METHODS, default="ClearPML")
            command.add_argument("--landmarks", type=int, default=100, help="the same for all sizes (default: 100)")
            command.add_argument("--rows", type=int, nargs="+", default=[100_000, 200_000, 400_000])
        if function is model:
            command.add_argument("--labels", type=int, nargs="+", default=[20, 80])
            command.add_argument("--block", type=int, default=10_000, help="rows of a block (default: 10,000)")
        if function is speed:
            command.add_argument("--block", type=int, default=50_000, help="rows of a block (default: 50,000)")
            command.add_argument("--repeats", type=int, default=3, help="fits on each number of workers (default: 3)")
    args = parser.parse_args()
    args.function(args)


if __name__ == "__main__":
    sys.exit(main())
