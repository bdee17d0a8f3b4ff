"""Suspects as tasks for annotation tools, and their annotations back as answers; plain files, no tool's own library.

One task per suspect: "is this label right for this row?". The tool shows the row, the question and how doubtful the
label is, and can sort by it. Row, label and a fingerprint of the data travel with each task, so that annotations find
their way back.
"""

import base64
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit._files import check_target, replacing
from pmlkit._words import check_choice, excerpt
from pmlkit.cleaning.audit import Answers
from pmlkit.cleaning.audit.answers import fingerprint
from pmlkit.cleaning.review.cards import Cards
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult


LABEL_STUDIO_CONFIG = """<View>
  <Header value="$question"/>
  <Text name="text" value="$text"/>
  <Choices name="answer" toName="text" choice="single" required="true">
    <Choice value="right" hotkey="a"/>
    <Choice value="wrong" hotkey="x"/>
    <Choice value="unsure" hotkey="s"/>
  </Choices>
</View>
"""
"""The labelling interface of a Label Studio project that takes the exported tasks."""

LABEL_STUDIO_IMAGES = LABEL_STUDIO_CONFIG.replace("  <Choices", '  <Image name="image" value="$image"/>\n  <Choices', 1)
"""The same where rows have pictures."""

_MAX_FILE = 2**30
_PRODIGY_ANSWERS = {"accept": "right", "reject": "wrong", "ignore": "unsure"}


def export_suspects(
    result: "CleaningResult",
    path: str | os.PathLike[str],
    to: str,
    *,
    n_suspects: int | None = None,
    table: Any = None,
    force: bool = False,
) -> int:
    """Write the most suspicious labels as tasks of an annotation tool and return how many there are.

    Parameters
    ----------
    result : CleaningResult
    path : path
        The file to write.
    to : {"label-studio", "argilla", "prodigy", "huggingface"}
        ``label-studio`` and ``argilla`` are JSON, ``prodigy`` is JSON Lines, ``huggingface`` is Parquet.
    n_suspects : int, optional
        How many, most suspicious first; by default all judged candidates that are more likely wrong than right, or the
        1,000 most suspicious ones if these are fewer.
    table : Table, optional
        From `pmlkit.open_table`: its image files are shown instead of the small pictures of the result. Pictures are
        put into the tasks, at most 400 pixels wide and high; ``huggingface`` gets none.
    force : bool, default=False
        Replace a file that is there already.

    Returns
    -------
    n_tasks : int

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from pmlkit import clean
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.cleaning.review import export_suspects
    >>> strips = load_digit_strips(100)
    >>> result = clean(strips.X, strips.Y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tasks.json")
    ...     n_tasks = export_suspects(result, path, "label-studio", n_suspects=5)
    ...     n_tasks, json.loads(path.read_text())[0]["predictions"][0]["model_version"]
    (5, 'pmlkit')
    """
    check_choice(to, EXPORTS, "to")
    target = check_target(path, force=force)
    if n_suspects is None:
        n_suspects = max(1000, int((result.doubt[result.order] > 0.5).sum()))
    cells = result.order[:n_suspects]
    data = EXPORTS[to](list(_tasks(result, cells, Cards(result, table=table))))
    with replacing(target) as stream:
        stream.write(data)
    return len(cells)


def _tasks(result: "CleaningResult", cells: Any, cards: Cards) -> Iterator[dict[str, Any]]:
    table = fingerprint(result.X, result.Y, result.label_names)
    for rank, cell in enumerate(np.asarray(cells).tolist(), start=1):
        row, label = int(result.rows[cell]), result.label_names[int(result.Y.indices[cell])]
        name = str(result.row_ids[row])
        shown = {"image": _as_address(*cards.picture(row, is_small=True))} if cards.has_pictures else {}
        yield {
            "row": row, "id": name, "label": label, "labels": result.labels_of(row),
            "text": f"row {name}" if cards.texts is None else str(cards.texts[row]), **shown,
            "rank": rank, "doubt": round(float(result.doubt[cell]), 6), "table": table,
            "question": f"Is the label {label!r} right for row {name}?",
        }  # fmt: skip


def _as_address(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def _image(task: dict[str, Any]) -> dict[str, str]:
    return {"image": task["image"]} if "image" in task else {}


def _label_studio(tasks: list[dict[str, Any]]) -> bytes:
    return _json(
        [
            {
                "data": task,
                "predictions": [
                    {
                        "model_version": "pmlkit",
                        "score": task["doubt"],
                        "result": [
                            {
                                "id": f"pmlkit-{task['rank']}",
                                "from_name": "answer", "to_name": "text", "type": "choices",
                                "value": {"choices": [_guess(task)]},
                            }
                        ],
                    }
                ],
            }
            for task in tasks
        ]
    )  # fmt: skip


def _argilla(tasks: list[dict[str, Any]]) -> bytes:
    return _json(
        [
            {
                "id": f"{task['table']}-{task['row']}-{task['rank']}",
                "fields": {"text": task["text"], "question": task["question"], **_image(task)},
                "metadata": {name: task[name] for name in ("row", "id", "label", "rank", "doubt", "table")},
                "suggestions": {"answer": {"value": _guess(task), "score": task["doubt"], "agent": "pmlkit"}},
                "responses": {},
                "vectors": {},
            }
            for task in tasks
        ]
    )


def _prodigy(tasks: list[dict[str, Any]]) -> bytes:
    lines = [
        {
            "text": task["text"],
            **_image(task),
            "label": task["label"],
            "meta": {name: task[name] for name in ("row", "id", "rank", "doubt", "table")},
        }
        for task in tasks
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode("utf-8", "replace")


def _huggingface(tasks: list[dict[str, Any]]) -> bytes:
    import io

    import pandas as pd

    stream = io.BytesIO()
    pd.DataFrame(tasks).drop(columns="image", errors="ignore").to_parquet(stream, index=False)
    return stream.getvalue()


def _guess(task: dict[str, Any]) -> str:
    return "wrong" if task["doubt"] > 0.5 else "right"


def _json(tasks: list[dict[str, Any]]) -> bytes:
    return (json.dumps(tasks, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")


EXPORTS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "label-studio": _label_studio,
    "argilla": _argilla,
    "prodigy": _prodigy,
    "huggingface": _huggingface,
}
"""The tools that tasks can be written for."""


def import_answers(path: str | os.PathLike[str], source: str) -> Answers:
    """Read the annotations that a tool exported as answers.

    Parameters
    ----------
    path : path
    source : {"label-studio", "prodigy", "csv"}
        ``label-studio``: its JSON export; ``prodigy``: JSON Lines of ``db-out``; ``csv``: columns row or id, label,
        answer.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.cleaning.review.exchange import import_answers
    >>> line = '{"label": "cat", "answer": "reject", "meta": {"row": 3}}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "out.jsonl")
    ...     _ = path.write_text(line)
    ...     import_answers(path, "prodigy").frame[["row", "label", "answer"]].values.tolist()
    [[3, 'cat', 'wrong']]
    """
    import pandas as pd

    check_choice(source, IMPORTS, "source")
    if source == "csv":
        return Answers.read(path)
    name = Path(path).name
    try:
        if Path(path).stat().st_size > _MAX_FILE:
            raise DataError(f"{name} has more than {_MAX_FILE // 2**20:,} MB: split it.")
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"There is no file {str(path)!r}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{name} cannot be read: {error}.") from error
    try:
        lines = list((_from_label_studio if source == "label-studio" else _from_prodigy)(text))
    except KeyError as error:
        reason = f"a task has no {excerpt(str(error.args[0]))}"
    except json.JSONDecodeError as error:
        reason = f"it is not {'JSON' if source == 'label-studio' else 'JSON Lines'}, {error}"
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
        reason = "its tasks are built in another way"
    else:
        reason = ""
    if reason:
        raise DataError(f"{name} is not an export of {source} with tasks of pmlkit: {reason}.")
    if not lines:
        raise DataError(f"{name} holds no answer: nothing was annotated, or it is not an export of {source}.")
    return Answers.from_frame(pd.DataFrame(lines), source=name)


def _from_label_studio(text: str) -> Iterator[dict[str, Any]]:
    for task in json.loads(text):
        data = task["data"]
        for annotation in task.get("annotations", []):
            if annotation.get("was_cancelled"):
                continue
            chosen = [item["value"]["choices"][0] for item in annotation["result"] if item["type"] == "choices"]
            if chosen:
                who = annotation.get("completed_by", "")
                who = who.get("email", who.get("id", "")) if isinstance(who, dict) else who
                yield {
                    "row": int(data["row"]), "label": str(data["label"]), "answer": str(chosen[0]), "who": str(who),
                    "when": str(annotation.get("created_at", "")), "table": str(data.get("table", "")),
                }  # fmt: skip


def _from_prodigy(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.strip():
            task = json.loads(line)
            meta = task["meta"]
            yield {
                "row": int(meta["row"]), "label": str(task["label"]),
                "answer": _PRODIGY_ANSWERS.get(task["answer"], task["answer"]),
                "who": str(task.get("_annotator_id", "")), "when": str(task.get("_timestamp", "")),
                "table": str(meta.get("table", "")),
            }  # fmt: skip


IMPORTS = ("label-studio", "prodigy", "csv")
"""The tools whose annotations can be read."""
