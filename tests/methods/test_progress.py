import pytest

from pmlkit import PMLLFC, CandidateLogistic

pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")


class Recorder:
    """A callback that counts finished tasks and asks to stop after some."""

    def __init__(self, stop_after=None):
        self.finished = []
        self.stop_after = stop_after
        self.torn_down = False

    def setup(self, estimator, context):
        self.max_tasks = context.max_subtasks

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.parent is not None:
            self.finished.append(context.task_name)
        return self.stop_after is not None and len(self.finished) >= self.stop_after

    def teardown(self, estimator, context):
        self.torn_down = True


def test_every_fold_is_reported(oracle):
    recorder = Recorder()
    CandidateLogistic(n_folds=3).set_callbacks(recorder).fit(oracle.X, oracle.Y)
    assert recorder.finished == ["fold"] * 3 + ["all rows"]
    assert recorder.max_tasks == 4
    assert recorder.torn_down


def test_a_callback_can_stop_the_iterations(oracle):
    model = PMLLFC(tol=0, max_iter=10).set_callbacks(Recorder(stop_after=3)).fit(oracle.X, oracle.Y)
    assert model.n_iter_ == 3
