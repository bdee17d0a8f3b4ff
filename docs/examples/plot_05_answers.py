"""
What three hundred answers buy
==============================

**Question.** What is gained by asking a person whether some of the labels are right?

**Answer.** The interval of the share of wrong labels shrinks from nearly everything to a useful width. **After some
hundred answers a thousand labels may be removed with a guaranteed precision, most of them never looked at.**
"""

import matplotlib.pyplot as plt
import numpy as np

import pmlkit
from pmlkit.data import load_digit_strips

# %%
# The data
# --------
# A thousand strips of digits, half of whose labels are false. Without answers little is known about how many.
strips = load_digit_strips(1000, random_state=0)
result = pmlkit.clean(strips.X, strips.Y, label_names=strips.label_names)
truth = strips.truth.toarray() > 0
column = {name: k for k, name in enumerate(strips.label_names)}
before = result.noise_rate_.overall
print(f"without answers: {before:.0%}, between {before.low:.0%} and {before.high:.0%}")

# %%
# Three hundred questions
# -----------------------
# The audit chooses the questions. Here the truth answers in place of a person; every tenth answer the estimates are
# noted.
audit = result.audit(precision=0.9, confidence=0.95, random_state=0)
trace = []
while audit.n_answers < 300:
    question = audit.next()
    audit.answer(question, "right" if truth[question.row, column[question.label]] else "wrong")
    if audit.n_answers % 10 == 0:
        rate, certificate = audit.noise_rate_, audit.certificate
        n_certified = 0 if certificate is None else len(certificate.cells)
        trace.append((audit.n_answers, rate, rate.low, rate.high, n_certified))
answers, rate, low, high, certified = np.array(trace, dtype=float).T

# %%
# The picture
# -----------
# Left: the estimated share of wrong labels with its 90 % interval, and the truth. **In this run the interval just
# misses the truth in the end**: of such intervals one in ten does. Right: labels that may be removed because at least
# 90 % of them are wrong. Most of these were never looked at.
is_wrong = ~truth[result.rows, result.Y.indices]
figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
axes[0].fill_between(
    [0, *answers], [before.low, *low], [before.high, *high], color="#1b4f8a", alpha=0.2
)
axes[0].plot([0, *answers], [before, *rate], color="#1b4f8a", label="estimate, 90 % interval")
axes[0].axhline(is_wrong.mean(), color="#d95f02", linestyle="--", label="truth")
axes[0].set(xlabel="answers", ylabel="share of wrong labels", ylim=(0, 1))
axes[0].legend(frameon=False)
axes[1].step(answers, certified, where="post", color="#1b4f8a", label="may be removed")
axes[1].plot(answers, answers, color="0.5", linestyle=":", label="answers given")
axes[1].set(xlabel="answers", ylabel="labels")
axes[1].legend(frameon=False)
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)

# %%
# The certificate
# ---------------
# It holds whenever you stop, if the answers are right (:doc:`/audit`). Here it can be checked against the truth.
print(
    f"with {answers[-1]:.0f} answers: {rate[-1]:.0%}, between {low[-1]:.0%} and {high[-1]:.0%}"
)
print(f"by the truth: {is_wrong.mean():.0%}")
print(audit.certificate)
if audit.certificate is not None:
    print(f"By the truth, {is_wrong[audit.certificate.cells].mean():.1%} of them are wrong.")
plt.show()
