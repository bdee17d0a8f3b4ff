"""Load on the review page, on this machine's loopback only: requests per second, latency, and no answer lost.

``python benchmarks/review_load.py [--rate 210] [--seconds 30] [--rows 40000]``

First one person answers alone: how long until the next card is there. Then sixteen people come at a fixed rate. One of
their requests in five is an answer, which brings the next card; the others read: the state, the page and its script.
Wall-clock times depend on what else the machine does; processor times are those of the server's process alone.
"""

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from pmlkit.data import make_pml

_N_ALONE, _N_PEOPLE = 200, 16
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
        pipe.send(([server.new_address() for _ in range(1 + _N_PEOPLE)], int(result.judged.sum())))
        for _ in iter(pipe.recv, "stop"):
            pipe.send(time.process_time())
        server.stop()
        pipe.send((len(store.standing()), review.audit.n_answers))


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


async def answer_alone(address: str, n_answers: int) -> tuple[list[float], int]:
    """Answer one question after the other, with a moment between them.

    Returns the seconds until each next card, and errors.
    """
    client = await Browser.sign_in(address)
    card = json.loads((await client.get("/api/card"))[1])["card"]
    times, n_errors = [], 0
    for turn in range(n_answers):
        await asyncio.sleep(0.05)
        begun = time.perf_counter()
        status, body = await client.post("/api/answer", _answer(card, turn, f"alone-{turn}"))
        times.append(time.perf_counter() - begun)
        n_errors += status != 200
        card = json.loads(body)["card"] if status == 200 else card
    client.close()
    return times, n_errors


def _answer(card: dict[str, Any], turn: int, key: str) -> dict[str, Any]:
    cell = {name: card[name] for name in ("row", "label", "kind")}
    return cell | {"answer": "wrong" if turn % 3 else "right", "client": key, "seconds": 1.0}


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
            content = _answer(card, turn, f"{number}-{turn}")
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
    parser.add_argument("--rows", type=int, default=40_000)
    chosen = parser.parse_args()
    here, there = multiprocessing.get_context("spawn").Pipe()
    with tempfile.TemporaryDirectory() as folder:
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(folder, chosen.rows, there))
        process.start()
        (first, *addresses), n_candidates = here.recv()
        clock = [_server_time(here)]
        alone, n_failed = asyncio.run(answer_alone(first, _N_ALONE))
        clock.append(_server_time(here))
        begun = time.process_time()
        answers, reads, n_in_time, n_errors = asyncio.run(load(addresses, chosen.rate, chosen.seconds))
        client_seconds = time.process_time() - begun
        clock.append(_server_time(here))
        here.send("stop")
        n_stored, n_known = here.recv()
        process.join()
    print(f"{n_candidates:,} candidates")
    print(f"one person: {len(alone)} answers, {n_failed} errors")
    _tell("  answer and next card", alone)
    print(f"  processor time of the server: {1000 * (clock[1] - clock[0]) / len(alone):.2f} ms per answer")
    print(f"{len(addresses)} people, {chosen.seconds:g} s")
    print(f"  {n_in_time / chosen.seconds:.1f} requests/s answered in time, {n_errors} errors")
    _tell("  answer and next card", answers)
    _tell("  reading", reads)
    for name, spent in (("server", clock[2] - clock[1]), ("client", client_seconds)):
        print(f"  processor time of the {name}: {1000 * spent / (len(answers) + len(reads)):.2f} ms per request")
    print(f"{len(alone) + len(answers)} answers acknowledged, {n_stored} stored, {n_known} known to the audit")


def _server_time(pipe: Any) -> float:
    """Return the processor time of the server's process so far."""
    pipe.send("time")
    return float(pipe.recv())


def _tell(name: str, seconds: list[float]) -> None:
    low, middle, high = 1000 * np.percentile(seconds, [50, 95, 99])
    print(f"{name}: median {low:.1f} ms, 95 % {middle:.1f} ms, 99 % {high:.1f} ms")


if __name__ == "__main__":
    main()
