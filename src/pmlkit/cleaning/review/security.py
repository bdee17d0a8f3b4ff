"""Who may talk to the review server: host names, tokens, cookies, same-origin requests, sizes and rates."""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pmlkit.cleaning.review.store import AnswerStore

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
