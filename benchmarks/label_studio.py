"""Try the exported tasks in a real Label Studio: import, annotate through its API, export, read the answers back.

``python benchmarks/label_studio.py --program PATH``, where PATH is the ``label-studio`` command of an environment of
its own (``pip install label-studio``). The server runs on loopback only, with a scratch folder for its data.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import httpx

from pmlkit.cleaning import clean
from pmlkit.cleaning.review import export_suspects, import_answers
from pmlkit.cleaning.review.exchange import LABEL_STUDIO_IMAGES
from pmlkit.data import load_digit_strips

_TOKEN = "0123456789abcdef0123456789abcdef01234567"
_N_TASKS = 50


def free_port() -> int:
    """Return an unused port of the loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(client: httpx.Client, process: subprocess.Popen[bytes], seconds: float = 300) -> None:
    """Wait until the server answers."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"Label Studio ended with code {process.returncode} before it answered.")
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(1)
    raise SystemExit("Label Studio did not answer in time.")


def main() -> None:
    """Run the round trip and print what came back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="label-studio")
    program = parser.parse_args().program
    if shutil.which(program) is None:
        print(f"skipped: there is no program {program!r}; pip install label-studio in an environment of its own")
        return
    strips = load_digit_strips(300, random_state=0)
    result = clean(strips.X, strips.Y, label_names=strips.label_names, media=strips.media)
    truth = strips.truth.toarray()
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export_suspects(result, folder / "tasks.json", "label-studio", n_suspects=_N_TASKS)
        command = [
            program, "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port),
            "--data-dir", str(folder / "data"), "--username", "ann@example.org", "--password", "only-for-this-test",
            "--user-token", _TOKEN,
        ]  # fmt: skip
        environment = os.environ | {
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true", "COLLECT_ANALYTICS": "false", "SENTRY_DSN": "",
            "LATEST_VERSION_CHECK": "false",
        }  # fmt: skip
        environment.pop("PYTHONPATH", None)
        with (
            open(folder / "log", "wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log, env=environment) as process,
        ):
            client = httpx.Client(
                base_url=f"http://127.0.0.1:{port}", timeout=60, headers={"authorization": f"Token {_TOKEN}"}
            )
            try:
                wait_for(client, process)
                project = client.post("/api/projects", json={"title": "pmlkit", "label_config": LABEL_STUDIO_IMAGES})
                project.raise_for_status()
                number = project.json()["id"]
                tasks = json.loads((folder / "tasks.json").read_text())
                client.post(f"/api/projects/{number}/import", json=tasks).raise_for_status()
                listed = client.get("/api/tasks", params={"project": number, "page_size": 100}).json()["tasks"]
                scores = [task["predictions"][0]["score"] for task in tasks]
                n_pictures = sum("image" in task["data"] for task in listed)
                print(f"{len(listed)} of {len(tasks)} tasks are there, {n_pictures} with a picture")
                print(f"most doubtful {max(scores):.3f}")
                for task in listed:
                    data = task["data"]
                    said = "right" if truth[data["row"], result.label_names.index(data["label"])] else "wrong"
                    choice = {
                        "from_name": "answer", "to_name": "text", "type": "choices", "value": {"choices": [said]}
                    }  # fmt: skip
                    client.post(f"/api/tasks/{task['id']}/annotations", json={"result": [choice]}).raise_for_status()
                exported = client.get(f"/api/projects/{number}/export", params={"exportType": "JSON"})
                exported.raise_for_status()
                (folder / "export.json").write_text(exported.text)
            except BaseException:
                print((folder / "log").read_text(errors="replace")[-2000:])
                raise
            finally:
                client.close()
                process.terminate()
        answers = import_answers(folder / "export.json", "label-studio")
    audit = result.audit(answers=answers)
    right = [
        bool(truth[line.row, result.label_names.index(line.label)]) == (line.answer == "right")
        for line in answers.frame.itertuples()
    ]
    print(f"{len(answers)} answers came back, {sum(right)} as they were given; the audit knows {audit.n_answers}")


if __name__ == "__main__":
    main()
