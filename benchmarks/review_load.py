"""Load on the review page, on this machine's loopback only: requests per second, latency, and no answer lost.

``python benchmarks/review_load.py [--rate 210] [--seconds 30] [--rows 20000]``

One request in five is an answer, which brings the next card; the others read: the state, the page and its script.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

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
        pipe.send(([server.new_address() for _ in range(16)], int(result.judged.sum())))
        pipe.recv()
        server.stop()
        pipe.send((len(store.standing()), review.audit.n_answers, time.process_time() - begun))


class Browser:
    """A signed-in keep-alive connection, on plain sockets: a heavier client takes the server's cores."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader, self._writer, self._host, self._cookie = reader, writer, host, ""

    @classmethod
    async def sign_in(cls, address: str) -> "Browser":
        """Connect and use the token of an address."""
        host, _, query = address.removeprefix("http://").partition("/")
        name, _, port = host.partition(":")
        opened = cls(*await asyncio.open_connection(name, int(port)), host)
        status, headers, _ = await opened._ask("GET", f"/{query}")
        if status != 303:
            raise SystemExit(f"signing in was answered with {status}")
        opened._cookie = headers["set-cookie"].partition(";")[0]
        return opened

    async def get(self, path: str) -> tuple[int, bytes]:
        """Read a path."""
        status, _, body = await self._ask("GET", path)
        return status, body

    async def post(self, path: str, content: Any) -> tuple[int, bytes]:
        """Send JSON."""
        status, _, body = await self._ask("POST", path, json.dumps(content).encode())
        return status, body

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def _ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        lines = [f"{method} {path} HTTP/1.1", f"host: {self._host}", f"cookie: {self._cookie}"]
        if method == "POST":
            lines += [f"origin: http://{self._host}", "content-type: application/json", f"content-length: {len(body)}"]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        first, *rest = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
        return int(first.split()[1]), headers, await self._reader.readexactly(int(headers["content-length"]))


async def load(addresses: list[str], rate: float, seconds: float) -> tuple[list[float], list[float], int, int]:
    """Send answers from several people at a fixed rate.

    Returns latencies of answers and of reads, how many requests were answered within `seconds`, and errors.
    """
    answers: list[float] = []
    reads: list[float] = []
    n_errors = n_in_time = 0
    people = [await Browser.sign_in(address) for address in addresses]
    every = (1 + len(_READS)) * len(people) / rate
    started = time.perf_counter()

    async def timed(request: Any, times: list[float]) -> tuple[int, bytes]:
        nonlocal n_errors, n_in_time
        begun = time.perf_counter()
        status, body = await request
        now = time.perf_counter()
        times.append(now - begun)
        n_errors += status != 200
        n_in_time += now <= started + seconds
        return status, body

    async def person(number: int, client: Browser) -> None:
        card = json.loads((await client.get("/api/card"))[1])["card"]
        first = started + every * number / len(people)
        for turn in range(int(seconds / every)):
            if card is None:
                return
            await asyncio.sleep(max(0.0, first + turn * every - time.perf_counter()))
            content = {name: card[name] for name in ("row", "label", "kind")}
            content |= {"answer": "wrong" if turn % 3 else "right", "client": f"{number}-{turn}", "seconds": 1.0}
            status, body = await timed(client.post("/api/answer", content), answers)
            card = json.loads(body)["card"] if status == 200 else card
            for path in _READS:
                await timed(client.get(path), reads)

    await asyncio.gather(*(person(number, client) for number, client in enumerate(people)))
    for client in people:
        client.close()
    return answers, reads, n_in_time, n_errors


def main() -> None:
    """Run the load and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=210.0, help="requests per second that are sent")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rows", type=int, default=20_000)
    chosen = parser.parse_args()
    here, there = multiprocessing.get_context("spawn").Pipe()
    with tempfile.TemporaryDirectory() as folder:
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(folder, chosen.rows, there))
        process.start()
        addresses, n_candidates = here.recv()
        begun = time.process_time()
        answers, reads, n_in_time, n_errors = asyncio.run(load(addresses, chosen.rate, chosen.seconds))
        client_seconds = time.process_time() - begun
        here.send("stop")
        n_stored, n_known, server_seconds = here.recv()
        process.join()
    print(f"{n_candidates:,} candidates, {len(addresses)} people, {chosen.seconds:g} s")
    n_requests = len(answers) + len(reads)
    print(f"{n_in_time / chosen.seconds:.1f} requests/s answered in time, {n_errors} errors")
    for name, spent in (("server", server_seconds), ("client", client_seconds)):
        print(f"processor time of the {name}: {1000 * spent / n_requests:.2f} ms per request")
    for name, times in (("answer and next card", answers), ("reading", reads)):
        milliseconds = 1000 * np.asarray(times)
        print(f"{name}: median {statistics.median(milliseconds):.1f} ms, 99 % {np.percentile(milliseconds, 99):.1f} ms")
    print(f"{len(answers)} answers acknowledged, {n_stored} stored, {n_known} known to the audit")


if __name__ == "__main__":
    main()
