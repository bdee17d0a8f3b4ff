"""The review page: a person settles doubtful labels in a browser, and gets a promise for it.

`review` starts the page for a result of `pmlkit.clean` or for a table. Answers are kept in an SQLite file, from which
`apply_review` makes cleaned labels without the page. `export_suspects` and `import_answers` exchange questions and
answers with other annotation tools.
"""

import contextlib
import logging
import os
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmlkit._optional import optional_import
from pmlkit.cleaning.review.exchange import export_suspects, import_answers
from pmlkit.cleaning.review.outputs import Applied, apply_review
from pmlkit.cleaning.review.store import AnswerStore

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult
    from pmlkit.cleaning.review.server import ReviewServer

__all__ = ["AnswerStore", "Applied", "apply_review", "export_suspects", "import_answers", "open_review", "review"]

logger = logging.getLogger(__name__)


def open_review(
    result: "CleaningResult",
    answers: str | os.PathLike[str],
    *,
    title: str = "Review",
    table: Any = None,
    precision: float = 0.9,
    confidence: float = 0.95,
    random_state: int = 0,
    host: str = "127.0.0.1",
    port: int = 0,
) -> "ReviewServer":
    """Make the server of a review, not yet running.

    Parameters
    ----------
    result : CleaningResult
    answers : path
        The SQLite file of the answers; created if absent, continued if present.
    title : str
        The heading of the page.
    table : Table, optional
        From `pmlkit.open_table`: its pictures and columns are shown, and it can be downloaded with the labels cleaned.
    precision, confidence, random_state
        Of the certificate, see `CleaningResult.audit`.
    host, port
        Where to listen; port 0 takes any free one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit import clean
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.cleaning.review import open_review
    >>> strips = load_digit_strips(100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     server = open_review(clean(strips.X, strips.Y), pathlib.Path(folder, "a.sqlite"), title="Digits")
    ...     print(len(server.answers))
    ...     server.close()
    0
    """
    for needed in ("starlette", "uvicorn"):
        optional_import(needed)
    from pmlkit.cleaning import clean
    from pmlkit.cleaning.audit.answers import fingerprint
    from pmlkit.cleaning.review.server import ReviewServer
    from pmlkit.cleaning.review.session import Review

    def refit(given: Any, on_progress: Any) -> "CleaningResult":
        return clean(
            result.X, result.Y, verified=given, label_names=result.label_names, row_names=result.row_names,
            media=result.media, on_progress=on_progress,
        )  # fmt: skip

    store = AnswerStore(answers, fingerprint=fingerprint(result.X, result.Y, result.label_names))
    try:
        session = Review(
            result, store, title=title, table=table, precision=precision, confidence=confidence,
            random_state=random_state, refit=refit,
        )  # fmt: skip
        return ReviewServer(session, host=host, port=port)
    except BaseException:
        store.close()
        raise


def review(
    result: "CleaningResult",
    answers: str | os.PathLike[str] = "review.sqlite",
    *,
    open_browser: bool = True,
    **options: Any,
) -> "ReviewServer":
    """Start the review page of a result in the background and return its server, from which the answers are read.

    Parameters
    ----------
    result : CleaningResult
        From `pmlkit.clean`.
    answers : path, default="review.sqlite"
        The SQLite file of the answers; created if absent, continued if present.
    open_browser : bool, default=True
        Open the page at once; its address is the server's attribute ``address`` in any case.
    **options
        Of `open_review`.

    Returns
    -------
    server : ReviewServer
        Shows its address. ``server.answers`` are the answers so far, for ``pmlkit.clean(..., verified=)``, and
        ``server.answers.frame`` is their table; ``server.close()`` ends it. ``server.wait()`` waits until it is
        interrupted, ends it and returns the answers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit import clean
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.cleaning.review import review
    >>> strips = load_digit_strips(100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     server = review(clean(strips.X, strips.Y), pathlib.Path(folder, "a.sqlite"), open_browser=False)
    ...     print(server.address.partition("?")[0].startswith("http://127.0.0.1:"), len(server.answers))
    ...     server.close()
    True 0
    """
    server = open_review(result, Path(answers), **options)
    server.start()
    if open_browser:
        with contextlib.suppress(webbrowser.Error):  # without a browser, the address is there to be opened by hand
            webbrowser.open(server.address)
    return server
