import io

import numpy as np
import pytest
from rich.console import Console

from pmlkit.cli import clean_command
from pmlkit.cli import output as progress
from pmlkit.cli.output import Watch, seconds_left
from pmlkit.data import load_digit_strips
from pmlkit.methods import PMLLFC, make_classifier
from pmlkit.methods.progress import FitProgress


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)


def wait_for(condition):
    """Wait until another thread has done something; a deadlock ends in a failure, not in a hang."""
    import time

    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("nothing happened in five seconds")


def test_what_is_quick_says_nothing(capfd):
    with Watch("counting", total=3) as watch:
        watch.advance(3)
    assert capfd.readouterr() == ("", "")


def test_without_a_terminal_there_are_lines(impatient, monkeypatch, capsys):
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.01)
    said = []
    monkeypatch.setattr(progress, "say", lambda kind, text: said.append((kind, text)))
    with Watch("counting", total=4) as watch:
        watch.advance()
        wait_for(lambda: any("25 % done" in text for _, text in said))
    assert {kind for kind, _ in said} == {"progress"}
    assert said[-1][1].startswith("counting, 0 s")


def test_on_a_terminal_there_is_a_bar(impatient, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "ERR", Console(file=screen, force_terminal=True, width=80, force_interactive=True))
    with Watch("counting [red]", total=4) as watch:
        wait_for(lambda: "counting [red]" in screen.getvalue())
        watch.begin("one")
        watch.begin("two")
        wait_for(lambda: "25%" in screen.getvalue())


def test_an_error_inside_takes_the_bar_down(impatient, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "ERR", Console(file=screen, force_terminal=True, width=80))
    watch = Watch("failing")
    with pytest.raises(KeyError), watch:
        raise KeyError
    assert not watch._bar.live.is_started


def test_a_fit_counts_its_iterations():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 4)), rng.integers(0, 2, size=(30, 3))
    with Watch("fitting") as watch:
        model = PMLLFC(max_iter=6, tol=0, random_state=0)
        if not hasattr(model, "set_callbacks"):
            pytest.skip("scikit-learn before 1.9 has no callbacks")
        model.set_callbacks(FitProgress(watch)).fit(X, Y)
        task = watch._bar.tasks[0]
        assert (task.total, task.completed) == (6, model.n_iter_)


def test_judging_labels_is_done_when_the_comparisons_are(monkeypatch):
    done = []

    class Recorded(Watch):
        def advance(self, n_steps=1):
            super().advance(n_steps)
            done.append(self._bar.tasks[0].percentage)

    monkeypatch.setattr(clean_command, "Watch", Recorded)
    strips = load_digit_strips(120)
    model = make_classifier("auto")
    clean_command.find_suspects(strips, model, 5)
    if not hasattr(model, "set_callbacks"):
        pytest.skip("scikit-learn before 1.9 has no callbacks")
    assert done == sorted(done)
    assert done[-3] < done[-2] < done[-1] == 100.0


def test_the_time_left_falls_during_a_step_and_rises_when_it_takes_long():
    left = [seconds_left(4, 2, 20.0, since) for since in (0.0, 5.0, 9.9, 30.0, 60.0)]
    assert left[0] == 20.0  # two steps of ten seconds
    assert left[0] > left[1] > left[2]
    assert left[2] < left[3] < left[4]
