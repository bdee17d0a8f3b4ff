"""The state of an audit: what the answers so far tell and promise.

How many candidates are wrong is estimated by a calibration curve and by the audit sample, which is a random sample that
is valid at every length. Every candidate gets a key, exponential with a rate that grows with suspicion, and questions
are asked in the order of keys. Any prefix is a sample: with `tau` the key of the first unasked candidate, a candidate
of rate w was asked with probability ``1 - exp(-w tau)`` (rank conditioning), and dividing by it gives unbiased totals.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit
from scipy.stats import beta

from pmlkit._arrays import generator, in_format, without_cells
from pmlkit._typing import BoolArray, FloatArray, IntArray, RandomState
from pmlkit._words import counted
from pmlkit.cleaning.audit import answers as codes
from pmlkit.cleaning.audit.answers import RIGHT, UNKNOWN, UNSURE, WORDS, WRONG, Answers, Settle
from pmlkit.cleaning.audit.certificate import Attempts, Certificate
from pmlkit.cleaning.audit.noise_model import Design, LearningOrder, curve_design, fit_noise_model
from pmlkit.cleaning.audit.record import Record
from pmlkit.cleaning.estimates import Estimate, log_odds, n_first

if TYPE_CHECKING:
    import pandas as pd

    from pmlkit.cleaning.result import CleaningResult


_N_TO_TELL = 20  # audit questions from which `status` tells rates
_SETTINGS = ("precision", "confidence", "random_state", "answer_error", "repeats", "settle")
_BASE, _STEEPNESS = 0.3, 0.01

_Z90 = 1.645
_FEW = 20.0  # this number of answers doubles the variance of an estimate
_ENOUGH = 30  # answers of the audit sample from which its own estimate counts in full


def audit_order(n_candidates: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the order of questions, and the rates and keys of candidates, all by rank of suspicion.

    `n_candidates`: ranked from 0, the most suspicious, on.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.audit.state import audit_order
    >>> order, rate, key = audit_order(1000, np.random.default_rng(0))
    >>> bool(rate[0] > rate[-1]), bool((np.diff(key[order]) >= 0).all())
    (True, True)
    """
    steep = 1.0 / ((np.arange(n_candidates) + 0.5) / max(n_candidates, 1) + _STEEPNESS)
    rate = _BASE + (1.0 - _BASE) * steep / steep.mean() if n_candidates else steep
    key = rng.exponential(size=n_candidates) / rate
    return np.argsort(key, kind="stable"), rate, key


def inclusion(rate: FloatArray, key: FloatArray, order: IntArray, is_known: BoolArray) -> tuple[int, FloatArray]:
    """Return how long the answered prefix is, and how likely each candidate was to be in it.

    Candidates that were answered for another reason are passed over: they are known, and need not be estimated.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.audit.state import inclusion
    >>> known = np.array([True, True, False])
    >>> inclusion(np.ones(3), np.array([0.1, 0.2, 0.4]), np.arange(3), known)[1].round(3).tolist()
    [0.33, 0.33, 0.33]
    """
    unknown = ~is_known[order]
    if not unknown.any():
        return len(order), np.ones(len(order))
    length = int(unknown.argmax())
    return length, -np.expm1(-rate * key[order[length]])


def difference_estimate(
    wrong: FloatArray, predicted: FloatArray, chance: FloatArray, n_sure: float
) -> tuple[float, float]:
    """Return a total of wrong candidates from a model's total and the errors of the model on a random sample.

    `wrong`: answers of the sample, 1 for wrong. `predicted` (aligned with `wrong`): the model's probabilities for
    the same candidates, as if they had not been asked. `chance` (aligned with `wrong`): with which probability each
    came into the sample. `n_sure`: the model's total over all candidates that are sampled from, plus the known ones.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.audit.state import difference_estimate
    >>> difference_estimate(np.array([1.0]), np.array([0.5]), np.array([0.1]), 10.0)[0]
    15.0
    """
    error = wrong - predicted
    total = n_sure + float((error / chance).sum())
    return total, float(np.sqrt(((1.0 - chance) / chance**2 * error**2).sum()))


class Estimates:
    """Totals and shares of wrong candidates, from all answers, with 90 % intervals.

    The intervals are made for a number of answers that was fixed beforehand: they are not valid for a person who stops
    when it looks good. The certificate is.

    `design`: of the calibration curve. `verdict` (n_candidates,): what is known of each. `fitted`: the candidates that
    the curve is fitted to. `sampled`: the candidates that came into the audit sample. `chance` (n_candidates,): with
    which probability each would have.
    """

    def __init__(
        self, design: Design, verdict: IntArray, fitted: IntArray, sampled: IntArray, chance: FloatArray
    ) -> None:
        self._verdict = verdict
        self._sampled = sampled[np.isin(verdict[sampled], [WRONG, RIGHT])]
        self._chance = chance
        self._model = fit_noise_model(design, fitted, (verdict[fitted] == WRONG).astype(np.float64))
        self._probability = expit(self._model.log_odds())
        weight = 1.0 / chance[sampled]
        unsure = verdict[sampled] == UNSURE
        self._unsure = float(weight[unsure].sum() / weight.sum()) if len(sampled) else float((verdict == UNSURE).any())

    def total(self, members: BoolArray) -> Estimate:
        """Return the number of wrong ones among some candidates.

        Answers "unsure" say nothing about the number, but widen the interval: they may all be right, or all wrong.
        """
        p, verdict = self._probability, self._verdict
        is_open = members & np.isin(verdict, [UNKNOWN, UNSURE])
        n_wrong = float((members & (verdict == WRONG)).sum())
        n_most = float(members.sum() - (members & (verdict == RIGHT)).sum())
        model = n_wrong + float(p[is_open].sum())
        spread = np.where(is_open, p * (1.0 - p), 0.0)
        model_error = np.sqrt(self._model.variance_of_sum(spread) + spread.sum())
        mine = self._sampled[members[self._sampled]]
        wrong = (verdict[mine] == WRONG).astype(np.float64)
        # Without the sample's own answers, which its weights take care of.
        n_sure = model - float(wrong.sum()) + float(p[mine].sum())
        design, design_error = difference_estimate(wrong, p[mine], self._chance[mine], n_sure)
        # A few answers with large weights say little by themselves.
        share = 0.5 * min(len(self._sampled) / _ENOUGH, 1.0) if len(mine) else 0.0
        value = min(max((1.0 - share) * model + share * design, n_wrong), n_most)
        # Standard errors from few answers are too small themselves.
        error = max(float(model_error), design_error) * float(np.sqrt(1.0 + _FEW / max(len(self._sampled), 1)))
        room = max(n_most - n_wrong, 1e-9)
        low, high = _interval((value - n_wrong) / room, error / room)
        # None in the sample: there may be as many as a sample of that size would often miss.
        if len(mine) and wrong.all():
            low = min(low, _all_alike(len(mine)))
        elif len(mine) and not wrong.any():
            high = max(high, 1.0 - _all_alike(len(mine)))
        unsure = min(self._unsure, 1.0)
        return Estimate(value, n_wrong + room * low * (1.0 - unsure), n_wrong + room * (high + (1.0 - high) * unsure))

    def share(self, members: BoolArray) -> Estimate:
        """Return the share of wrong ones among some candidates."""
        n, total = max(int(members.sum()), 1), self.total(members)
        return Estimate(total / n, total.low / n, total.high / n)


def _interval(share: float, error: float) -> tuple[float, float]:
    """Return the outer ends of two intervals: of the share, and of its log odds, which is skewed near 0 and 1."""
    low, high = share - _Z90 * error, share + _Z90 * error
    spread = share * (1.0 - share)
    if spread > 0.0:
        width = _Z90 * min(error / spread, 1.0)  # where the error is larger, the scale of log odds means little
        low, high = min(low, float(expit(logit(share) - width))), max(high, float(expit(logit(share) + width)))
    return max(low, 0.0), min(high, 1.0)


def _all_alike(n: int) -> float:
    """Return the 5 % quantile of a share by a sample of `n` that all have it (Jeffreys' prior)."""
    return float(beta.ppf(0.05, n + 0.5, 0.5))


class AuditState:
    """Answers, estimates and promises of an audit; `Audit`, which asks and takes answers, documents the parameters."""

    def __init__(
        self, result: "CleaningResult", precision: float, confidence: float, random_state: RandomState,
        answer_error: float, repeats: float, settle: Settle,
    ) -> None:  # fmt: skip
        _check_settings(precision, confidence, answer_error, repeats, settle)
        # Evidence that has seen the answers must not be calibrated by them once more.
        result = result if result.before_answers is None else result.before_answers
        self.result = result
        self.precision, self.confidence, self.answer_error = float(precision), float(confidence), float(answer_error)
        self.repeats, self.settle = float(repeats), settle
        is_number = isinstance(random_state, int | np.integer)
        self.random_state = int(random_state) if is_number else int(generator(random_state).integers(2**31))  # type: ignore[arg-type]
        self._record = Record(result.Y.nnz, settle)
        self.events, self.verdict = self._record.events, self._record.verdict
        self._cells = result.order  # by rank of suspicion: everything "ranked" below counts in it
        self._sample, self._rate, self._key = audit_order(len(self._cells), self._rng(0))
        self._curve = curve_design(log_odds(result.doubt[self._cells]), result.Y.indices[self._cells])
        self._learner = LearningOrder(result, self._curve)
        self._tests = Attempts(self.precision, self.confidence, self.answer_error)
        self._fitted_at = 0
        self._estimates: Estimates | None = None

    @property
    def n_answers(self) -> int:
        """How many answers stand, repeated ones included."""
        return self._record.n_answers

    @property
    def probability(self) -> FloatArray:
        """How likely each candidate is wrong, by answers and noise model, aligned with ``result.Y.data``."""
        full = self.result.doubt.astype(np.float64)
        full[self._cells] = self._learner.probability
        full[self.verdict == WRONG], full[self.verdict == RIGHT] = 1.0, 0.0
        return full

    @property
    def order(self) -> IntArray:
        """Unanswered candidates by position in ``result.Y.data``, the most suspicious first, as learned so far."""
        cells = self._cells[self._learner.queue]
        return np.asarray(cells[self.verdict[cells] == UNKNOWN])

    @property
    def answers(self) -> Answers:
        """All answers that stand, in the order in which they came."""
        import pandas as pd

        given = self._record.answers()
        table = self._table(np.array([e.cell for e in given], dtype=np.int64))
        table["answer"] = [e.answer for e in given]
        table["who"], table["when"] = [e.who or "" for e in given], [e.when or "" for e in given]
        table["table"] = self.fingerprint
        return Answers(pd.DataFrame(table))

    @property
    def contradictions(self) -> "pd.DataFrame":
        """Candidates that were answered in different ways: ``row``, ``label``, ``answers``, ``settled``."""
        found = self._record.contradicting()
        table = self._table(np.array(list(found), dtype=np.int64))
        table["answers"] = [
            ", ".join(e.answer + (f" ({e.who})" if e.who else "") for e in given) for given in found.values()
        ]
        table["settled"] = [WORDS[self.verdict[cell]] for cell in found]
        return table

    @property
    def certificate(self) -> Certificate | None:
        """What may be removed, and what is promised about it; None as long as nothing is."""
        if self._tests.ledger.certified is None:
            return None
        cells = self._tests.certified(self.verdict)
        table = self._table(cells)
        table["seen"] = self.verdict[cells] == WRONG
        pairs = self._record.repeats()
        differ = sum(one != other for one, other in pairs)
        said = f"Of {len(pairs)} questions that were repeated {differ} were answered differently." if pairs else ""
        return Certificate(
            removed=table, cells=cells, precision=self.precision, confidence=self.confidence, n_answers=self.n_answers,
            answer_error=self.answer_error, n_unsure=int((self.verdict == UNSURE).sum()), disagreement=said,
        )  # fmt: skip

    @property
    def removed(self) -> BoolArray:
        """What would go now, aligned with ``result.Y.data``: what is certified, and what was called wrong."""
        gone = self.verdict == WRONG
        gone[self._tests.certified(self.verdict)] = True
        return np.asarray(gone)

    def cleaned(self) -> Any:
        """Return the candidates without those in `removed`, in the kind of container that was given to `clean`."""
        return in_format(without_cells(self.result.Y, self.removed), self.result.given, self.result.label_names)

    @property
    def noise_rate_(self) -> Estimate:
        """The share of judged candidates that are wrong, with a 90 % interval."""
        return self._current.share(np.ones(len(self._cells), dtype=bool))

    def expected_precision(self, k: Any) -> Estimate:
        """Estimate how many of the `k` most suspicious candidates of ``result.order`` are wrong, as a share.

        Parameters
        ----------
        k : int or float
            A number of candidates, or a share of them in (0, 1].
        """
        n_taken = n_first(k, len(self._cells))
        return self._current.share(np.arange(len(self._cells)) < n_taken)

    @property
    def left_(self) -> Estimate:
        """How many wrong labels stay after everything in `removed` has gone, with a 90 % interval."""
        # All wrong ones minus those removed: a sample of what stays would lack the answers that made the others go.
        total = self._current.total(np.ones(len(self._cells), dtype=bool))
        verdict = self.verdict[self._cells]
        is_unseen = self.removed[self._cells] & (verdict == UNKNOWN)
        gone = float((verdict == WRONG).sum() + self._learner.probability[is_unseen].sum())
        return Estimate(*(max(value - gone, 0.0) for value in (total, total.low, total.high)))

    @property
    def answer_error_(self) -> Estimate:
        """The measured share of mistaken answers, by questions that were answered twice, with a 90 % interval."""
        pairs = self._record.repeats()
        return codes.error_rate(sum(one != other for one, other in pairs), len(pairs))

    def status(self) -> str:
        """Return what is known and promised so far, in a few sentences."""
        is_answered = self.verdict != UNKNOWN
        if not is_answered.any():
            return "No answers yet: nothing is promised."
        n_wrong = int((self.verdict == WRONG).sum())
        parts = [f"{counted(self.n_answers, 'answer')}, {counted(n_wrong, 'label')} found wrong."]
        if (self.verdict[is_answered] == UNSURE).all():
            return parts[0] + " Every answer is 'unsure': nothing can be estimated or promised by them."
        is_open = not is_answered[self._cells].all()
        if is_open and self._record.n_of("audit") < _N_TO_TELL and not self._record.n_of("given"):
            return parts[0] + f" After {_N_TO_TELL} it will be estimated how many are wrong in all."
        rate, left = self.noise_rate_, self.left_
        parts.append(
            f"About {100 * rate:.0f} % of the labels are wrong ({100 * rate.low:.0f} to {100 * rate.high:.0f} "
            f"%); about {left:,.0f} wrong ones are left ({left.low:,.0f} to {left.high:,.0f})."
        )
        certificate = self.certificate
        parts.append("Nothing is certified yet." if certificate is None else str(certificate))
        return " ".join(parts)

    def facts(self) -> dict[str, Any]:
        """Return counts, estimates and the promise as plain numbers and texts."""
        rate, left, certificate = self.noise_rate_, self.left_, self.certificate
        return {
            "answers": self.n_answers,
            "noise_rate": float(rate),
            "noise_rate_low": rate.low,
            "noise_rate_high": rate.high,
            "left": float(left),
            "left_low": left.low,
            "left_high": left.high,
            "certified": 0 if certificate is None else len(certificate.cells),
            "promise": None if certificate is None else str(certificate),
            "contradictions": len(self.contradictions),
            "removable": int(self.removed.sum()),
        }

    @cached_property
    def fingerprint(self) -> str:
        """A short text that tells whether answers are about the same data."""
        return codes.fingerprint(self.result.X, self.result.Y, self.result.label_names)

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters that questions and promises depend on."""
        return {name: getattr(self, name) for name in _SETTINGS}

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.random_state, *stream])

    def _table(self, cells: IntArray) -> "pd.DataFrame":
        import pandas as pd

        rows = self.result.rows[cells]
        table = pd.DataFrame({"row": rows})
        if self.result.row_names is not None:
            table["id"] = [self.result.row_names[row] for row in rows.tolist()]
        table["label"] = np.asarray(self.result.label_names, dtype=object)[self.result.Y.indices[cells]]
        return table

    @property
    def _current(self) -> Estimates:
        """Estimates from the answers as they stand now."""
        if self._estimates is None:
            verdict = self.verdict[self._cells]
            length, chance = inclusion(self._rate, self._key, self._sample, verdict != UNKNOWN)
            prefix = self._sample[:length]
            standing = self._record.standing
            is_sampled = [standing[cell][0].kind == "audit" for cell in self._cells[prefix].tolist()]
            fitted = self._learner.fitted(verdict, self._rng(2, len(self.events)))
            self._estimates = Estimates(self._curve, verdict, fitted, prefix[is_sampled], chance)
        return self._estimates


def _check_settings(precision: float, confidence: float, answer_error: float, repeats: float, settle: str) -> None:
    for name, value in (("precision", precision), ("confidence", confidence)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} must be between 0 and 1, got {value!r}.")
    if not 0.0 <= answer_error < 0.5:
        raise ValueError(f"answer_error must be at least 0 and below 0.5, got {answer_error!r}.")
    if not 0.0 <= repeats <= 0.5:
        raise ValueError(f"repeats must be between 0 and 0.5, got {repeats!r}.")
    if settle not in ("latest", "majority"):
        raise ValueError(f"settle must be 'latest' or 'majority', got {settle!r}.")
