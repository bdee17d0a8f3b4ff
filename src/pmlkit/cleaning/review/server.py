"""The web server of a review, on this machine only unless told otherwise: routes to `Review` in session.py.

`Gate` and `SecurityMiddleware` say who may talk to it: host names, tokens, cookies, same-origin requests, sizes, rates.
"""

import hashlib
import hmac
import json
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

import uvicorn
from jinja2 import Environment, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pmlkit._words import harmless
from pmlkit.cleaning.review.session import Review
from pmlkit.cleaning.review.store import AnswerStore
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.cleaning.audit import Answers


logger = logging.getLogger(__name__)

_SCRIPTS = ("card", "dom", "lists", "panel", "requests", "results", "review")
_STATIC = {
    **{f"{name}.js": "text/javascript; charset=utf-8" for name in _SCRIPTS},
    "review.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MAX_BODY = 2**20
_MAX_PEOPLE = 200
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]


class ReviewServer:
    """Serve a review on a port of this machine.

    Parameters
    ----------
    review : Review
    host : str, default="127.0.0.1"
        Another address than a loopback one lets other machines in: only with the token, but without encryption.
    port : int, default=0
        0 takes any free port.

    Attributes
    ----------
    port : int
        The port that is bound.
    gate : Gate
        Makes the one-time tokens.
    """

    def __init__(self, review: Review, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.review = review
        self.host = host
        self._socket = _bind(host, port)
        self.port = int(self._socket.getsockname()[1])
        self.gate = Gate(review.store, self.port)
        names = {host, *_LOOPBACK} if host in _LOOPBACK else {host}
        hosts = {f"[{name}]:{self.port}" if ":" in name else f"{name}:{self.port}" for name in names}
        self.app = _application(review, self.gate, hosts, self.new_address)
        config = uvicorn.Config(
            self.app, log_level="critical", access_log=False, lifespan="off", server_header=False, date_header=False,
            timeout_graceful_shutdown=2, h11_max_incomplete_event_size=16_384,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach the server."""
        return self.host in _LOOPBACK

    @cached_property
    def address(self) -> str:
        """The address of the page, with a token that works once."""
        return self.new_address()

    @property
    def answers(self) -> "Answers":
        """The answers so far, for ``pmlkit.clean(..., verified=)``; ``answers.frame`` is a DataFrame."""
        return self.review.answers

    def new_address(self) -> str:
        """Return an address with a token that opens the page once."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/?token={self.gate.new_token()}"

    def run(self) -> None:
        """Serve until Ctrl-C or `stop`."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def start(self) -> None:
        """Serve in the background; returns when requests are answered."""
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self.run, name="pmlkit review", daemon=True)
        self._thread.start()
        while self._thread.is_alive() and not self._server.started:
            self._thread.join(0.01)

    def stop(self) -> None:
        """End serving; what is under way is finished first."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def close(self) -> None:
        """End serving and close the store of the answers, which can still be read from `answers`."""
        self.stop()
        if not self._server.started:  # one that ran closes it at its end, which may be after an interrupt of `wait`
            self._socket.close()
        self.review.close()

    def wait(self) -> "Answers":
        """Wait until Ctrl-C, or a notebook's *Interrupt*, then end serving and return the answers."""
        try:
            while self._thread is not None and self._thread.is_alive():
                self._thread.join(0.2)
        except KeyboardInterrupt:
            pass
        finally:
            self.close()
        return self.answers

    def __repr__(self) -> str:
        if self._thread is None:
            return f"<review page {self.review.title!r}, not running>"
        return f"<review page {self.review.title!r} at {self.address}>"

    def _repr_html_(self) -> str:
        """Show the address in a notebook."""
        if self._thread is None:
            return f"<p>{escape(repr(self))}</p>"
        return f'<p>Review page: <a href="{escape(self.address)}" target="_blank">{escape(self.address)}</a></p>'


def check_port(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on."""
    _bind(host, port).close()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small packets at once; otherwise each answer may wait 40 ms for the client.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        # From here on a browser that is quicker than the server waits instead of being refused.
        bound.listen(128)
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(
            f"The port {port} of {host} cannot be used: {reason}. Choose another with --port, or 0 for any free one."
        ) from error
    return bound


def _application(review: Review, gate: "Gate", hosts: set[str], new_address: Callable[[], str]) -> Starlette:
    environment = Environment(autoescape=True, finalize=harmless, undefined=StrictUndefined)
    files = resources.files("pmlkit.cleaning.review")
    template = environment.from_string(files.joinpath("templates", "page.html.j2").read_text(encoding="utf-8"))
    page = template.render(title=review.title)
    static = {name: files.joinpath("static", name).read_bytes() for name in _STATIC}

    async def index(request: Request) -> Response:
        token = request.query_params.get("token")
        if token is not None:
            cookie = await run_in_threadpool(gate.admit, token[:200])
            if cookie is None and gate.visitor(request) is None:
                return _refused("This address was used already, or is not of this run of the server.")
            answer = RedirectResponse("/", status_code=303)
            if cookie is not None:
                answer.set_cookie(
                    gate.cookie_name, cookie, max_age=30 * 24 * 3600, httponly=True, samesite="strict", path="/"
                )
            return answer
        if gate.visitor(request) is None:
            return _refused("Open the address that the server printed when it started.")
        return HTMLResponse(page, headers={"cache-control": "no-store"})

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            return PlainTextResponse("There is no such file.\n", status_code=404)
        return Response(static[name], media_type=_STATIC[name], headers={"cache-control": "no-cache"})

    def api(handler: Callable[..., Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            who = gate.visitor(request)
            if who is None:
                return PlainTextResponse("Not signed in.\n", status_code=401)
            try:
                given: dict[str, Any] = dict(request.query_params)
                if request.method == "POST":
                    given = json.loads(await request.body())
                    if not isinstance(given, dict):
                        raise DataError("A request must be a JSON object.")
                found = await run_in_threadpool(handler, who, given)
            except (ValueError, RecursionError) as error:
                # DataError is a ValueError: bad input, a changed store, a full disk; nothing was acknowledged.
                return PlainTextResponse(f"{error}\n", status_code=400)
            if isinstance(found, Response):
                return found
            return JSONResponse(found, headers={"cache-control": "no-store"})

        return endpoint

    async def rename(request: Request) -> Response:
        if gate.visitor(request) is None:
            return PlainTextResponse("Not signed in.\n", status_code=401)
        try:
            who = str(json.loads(await request.body()).get("who", "")).strip()[:60]
            who.encode()
        except (ValueError, AttributeError, RecursionError):
            who = ""
        if not who:
            return PlainTextResponse("A name must have at least one letter.\n", status_code=400)
        await run_in_threadpool(gate.rename, request, who)
        return JSONResponse(await run_in_threadpool(review.state, who, {}))

    def picture(who: str, given: dict[str, Any]) -> Response:
        data, media_type = review.picture(given)
        return Response(data, media_type=media_type, headers={"cache-control": "private, max-age=3600"})

    def download(who: str, given: dict[str, Any]) -> Response:
        data, name, media_type = review.download(str(given.get("what", "")))
        quoted = name.encode("ascii", "replace").decode().replace('"', "'")
        return Response(
            data, media_type=media_type, headers={"content-disposition": f'attachment; filename="{quoted}"'}
        )

    def invite(who: str, given: dict[str, Any]) -> dict[str, str]:
        return {"link": new_address()}

    get = {
        "start": review.start, "state": review.state, "card": review.card, "label": review.label_rows,
        "missing": review.missing_rows, "results": review.results, "picture": picture, "download": download,
    }  # fmt: skip
    post = {
        "answer": review.answer, "undo": review.undo, "toggle": review.toggle, "flag": review.flag,
        "change": review.change, "bulk": review.bulk, "merge": review.merge,
        "missing": review.answer_missing, "settle": review.settle, "learn": review.learn,
        "invite": invite,
    }  # fmt: skip
    routes = [
        Route("/", index),
        Route("/static/{name}", asset),
        *(Route(f"/api/{name}", api(handler), methods=["GET"]) for name, handler in get.items()),
        *(Route(f"/api/{name}", api(handler), methods=["POST"]) for name, handler in post.items()),
        Route("/api/name", rename, methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(SecurityMiddleware, hosts=hosts)])


def _refused(text: str) -> Response:
    return PlainTextResponse(text + "\n", status_code=401)


class Gate:
    """One-time tokens, and the browsers that have used one.

    Only hashes of cookies are stored, in the file of the answers, so that browsers stay signed in when the server is
    started again.
    """

    def __init__(self, store: AnswerStore, port: int) -> None:
        self._store = store
        # Browsers do not tell ports apart: two servers on one machine need two names.
        self.cookie_name = f"pmlkit_review_{port}"
        self._tokens: list[str] = []  # hashes, the oldest first
        self._lock = threading.Lock()

    def new_token(self) -> str:
        """Return a token that opens the page once."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._tokens = [*self._tokens, _hash(token)][-_MAX_PEOPLE:]
        return token

    def admit(self, token: str) -> str | None:
        """Use up a token and return the value of a new cookie, or None for a token that is unknown or used."""
        with self._lock:
            key = next((known for known in self._tokens if hmac.compare_digest(known, _hash(token))), None)
            if key is None:
                return None
            self._tokens.remove(key)
        cookie = secrets.token_urlsafe(32)
        self._store.add_visitor(_hash(cookie), f"person {cookie[:4]}")
        return cookie

    def visitor(self, request: Request) -> str | None:
        """Return who is asking, or None."""
        cookie = request.cookies.get(self.cookie_name)
        return None if not cookie or len(cookie) > 200 else self._store.visitor(_hash(cookie))

    def rename(self, request: Request, who: str) -> None:
        """Give the person behind a browser another name."""
        self._store.add_visitor(_hash(request.cookies[self.cookie_name]), who)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class SecurityMiddleware:
    """Refuse requests that another web page or machine could have made, and add the defensive headers.

    `hosts`: values of the Host header that are served; all others are refused, which stops DNS rebinding. `rate`,
    `burst`: requests per second that are served in the long run, and how many at once.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str], rate: float = 500.0, burst: float = 1000.0) -> None:
        self.app = app
        self.hosts = frozenset(hosts)
        # Requests that other sites cause have their own, so that they cannot use up that of the page.
        self._bucket, self._others_bucket = _TokenBucket(rate, burst), _TokenBucket(rate, burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_RAW_HEADERS]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            status, text = refusal
            await PlainTextResponse(text + "\n", status_code=status)(scope, receive, send_guarded)
            return
        await self.app(scope, _limited(receive), send_guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self.hosts:
            return 421, "This server does not answer to that host name."
        site = headers.get("sec-fetch-site")
        if not (self._bucket if site in (None, "same-origin", "none") else self._others_bucket).take():
            return 429, "Too many requests: wait a moment."
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 12 or int(length) > _MAX_BODY:
            return 413, f"A request may have at most {_MAX_BODY:,} bytes."
        if scope["method"] not in ("GET", "HEAD"):
            origin = headers.get("origin")
            is_own = origin in (f"http://{host}", f"https://{host}")
            if not is_own or site not in (None, "same-origin"):
                return 403, "Only the review page itself may send answers."
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return 415, "Answers are sent as JSON."
        elif scope["path"].startswith("/api/") and site not in (None, "same-origin", "none"):
            return 403, "Only the review page itself may ask."
        return None


def _limited(receive: Receive) -> Receive:
    """Return a receiver that ends a request whose body is longer than it may be, whatever its headers said."""
    n_received = 0

    async def receive_limited() -> Message:
        nonlocal n_received
        message = await receive()
        n_received += len(message.get("body", b""))
        if n_received > _MAX_BODY:
            return {"type": "http.disconnect"}
        return message

    return receive_limited


class _TokenBucket:
    """Allow `rate` requests per second in the long run and `burst` at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, time.monotonic()
        self._lock = threading.Lock()

    def take(self) -> bool:
        with self._lock:
            now = time.monotonic()
            self._left = min(self._burst, self._left + (now - self._at) * self._rate)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True
