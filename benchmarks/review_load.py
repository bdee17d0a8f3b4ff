"""Load on the review page, on this machine's loopback only: requests per second, latency, and no answer lost.

``python benchmarks/review_load.py [--rate 200] [--seconds 30] [--rows 20000]``

One request in five is an answer, which brings the next card; the others read: the state, the page and its script.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from pmlkit.data import make_pml

_READS = ("/api/state", "/", "/static/review.js", "/api/results")


def serve(folder: str, n_rows: int, pipe: Any) -> None:
    """Serve a review of made data until the parent says stop."""
    from pmlkit.cleaning import clean
    from pmlkit.cleaning.review.server import ReviewServer
    from pmlkit.cleaning.review.session import Review
    from pmlkit.cleaning.review.store import AnswerStore

    data = make_pml(n_rows, n_features=50, n_labels=20, random_state=0)
    result = clean(data.X, data.Y)
    with AnswerStore(Path(folder, "review.sqlite")) as store:
        review = Review(result, store, title="Load test")
        server = ReviewServer(review)
        server.start()
        begun = time.process_time()
        pipe.send((server.port, [server.new_address() for _ in range(16)], int(result.judged.sum())))
        pipe.recv()
        server.stop()
        pipe.send((len(store.standing()), review.audit.n_answers, time.process_time() - begun))


async def load(port: int, addresses: list[str], rate: float, seconds: float) -> tuple[list[float], list[float], int]:
    """Send answers from several people at a fixed rate; return latencies of answers and of reads, and errors."""
    origin = f"http://127.0.0.1:{port}"
    answers: list[float] = []
    reads: list[float] = []
    n_errors = 0
    async with contextual(addresses) as clients:
        started = time.perf_counter()
        deadline = started + seconds

        async def person(number: int, client: httpx.AsyncClient) -> None:
            nonlocal n_errors
            every = (1 + len(_READS)) * len(clients) / rate
            turn = 0
            card = (await client.get("/api/card")).json()["card"]
            while time.perf_counter() < deadline and card:
                await asyncio.sleep(max(0.0, started + turn * every - time.perf_counter()))
                turn += 1
                body = {name: card[name] for name in ("row", "label", "kind")}
                body |= {"answer": "wrong" if turn % 3 else "right", "client": f"{number}-{turn}", "seconds": 1.0}
                begun = time.perf_counter()
                answer = await client.post("/api/answer", json=body, headers={"origin": origin})
                answers.append(time.perf_counter() - begun)
                n_errors += answer.status_code != 200
                for path in _READS:
                    begun = time.perf_counter()
                    found = await client.get(path)
                    reads.append(time.perf_counter() - begun)
                    n_errors += found.status_code != 200
                card = answer.json()["card"] if answer.status_code == 200 else card

        await asyncio.gather(*(person(i, client) for i, client in enumerate(clients)))
    return answers, reads, n_errors


class contextual:
    """Clients that have signed in with one address each."""

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses

    async def __aenter__(self) -> list[httpx.AsyncClient]:
        self.clients = []
        for address in self.addresses:
            base = address.partition("/?")[0]
            client = httpx.AsyncClient(base_url=base, timeout=30, follow_redirects=True)
            (await client.get(address)).raise_for_status()
            self.clients.append(client)
        return self.clients

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            await client.aclose()


def main() -> None:
    """Run the load and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0, help="requests per second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rows", type=int, default=20_000)
    chosen = parser.parse_args()
    here, there = multiprocessing.get_context("spawn").Pipe()
    with tempfile.TemporaryDirectory() as folder:
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(folder, chosen.rows, there))
        process.start()
        port, addresses, n_candidates = here.recv()
        answers, reads, n_errors = asyncio.run(load(port, addresses, chosen.rate, chosen.seconds))
        here.send("stop")
        n_stored, n_known, server_seconds = here.recv()
        process.join()
    print(f"{n_candidates:,} candidates, {len(addresses)} people, {chosen.seconds:g} s")
    n_requests = len(answers) + len(reads)
    print(f"{n_requests / chosen.seconds:.0f} requests/s, {n_errors} errors")
    print(f"processor time of the server: {1000 * server_seconds / n_requests:.2f} ms per request")
    for name, times in (("answer and next card", answers), ("reading", reads)):
        milliseconds = 1000 * np.asarray(times)
        print(f"{name}: median {statistics.median(milliseconds):.1f} ms, 99 % {np.percentile(milliseconds, 99):.1f} ms")
    print(f"{len(answers)} answers acknowledged, {n_stored} stored, {n_known} known to the audit")


if __name__ == "__main__":
    main()
