"""The shift of log odds by which confidences sum to a wanted total."""

import numpy as np
import pytest
from scipy.special import expit, logit

from pmlkit.blocks import LocalEngine
from pmlkit.methods.clear_pml.confidence_rounds import rescaling_shift


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9])
def test_the_total_is_reached_in_few_passes(share, monkeypatch):
    values = np.random.default_rng(0).uniform(0.01, 0.99, 400)
    engine, passes = LocalEngine(4), []
    state = engine.of(np.split(values, 4))
    reduce = engine._reduce
    monkeypatch.setattr(engine, "_reduce", lambda *arguments: passes.append(1) or reduce(*arguments))
    shift = rescaling_shift(engine, state, share * 400)
    assert expit(logit(values) + shift).sum() == pytest.approx(share * 400, rel=1e-9)
    assert len(passes) <= 12  # one pass over all blocks per value: bisection would take forty
