"""Ask a person about candidates, learn from the answers, and promise what they allow to be promised.

::

    audit = result.audit(precision=0.9, confidence=0.95, random_state=0)  # result: CleaningResult of `clean`
    while (question := audit.next()) is not None:
        audit.answer(question, "wrong")  # or "right", "unsure"; who=, when= are kept
    audit.certificate  # None, or what may be removed; print it for the promise

**Questions.** A `Question` has ``row`` (int), ``label`` (name), ``kind``, ``cell`` (position in ``result.Y.data``) and
``name`` (identifier of the row). Kinds: "audit" (random sample), "suspicious" (most suspicious by all answers so far),
"certificate" (random draw from the set under test), "repeat" (asked before, to measure agreement). ``audit.next()`` is
the same until an answer comes in. ``audit.upcoming(k, skip=cells)`` gives the next k questions for prefetching or for
several people; `skip` are cells that are being shown to other people. Answers may come in any order.

**Answers.** ``audit.answer(question, answer, who=None, when=None)`` returns the answer's number;
``audit.answer((row, label), answer)`` takes one that was not asked (known, never a random draw: it cannot spoil the
certificate); ``audit.undo(number=None)`` withdraws one (by default the latest) and returns its question. A candidate
may be answered again; ``settle="latest"`` or ``"majority"`` says what counts; ``audit.contradictions`` lists them
(row, [id,] label, answers, settled). ``audit.verdict`` is aligned with ``result.Y.data``: 0 unknown, 1 wrong, 2 right,
3 unsure. ``audit.answers`` is an `Answers` (``.frame``, ``.write(path)``) that ``clean(..., verified=)`` takes.

**Results.** ``audit.noise_rate_``, ``audit.expected_precision(k)``, ``audit.left_`` (wrong labels left after
``audit.removed``) and ``audit.answer_error_`` are `Estimate` (float with low and high; 90 %). ``audit.certificate`` is
None or a `Certificate` (``.removed`` DataFrame row, [id,] label, seen; ``.cells``, ``.precision``, ``.confidence``,
``.n_answers``; ``str()`` is the promise). ``audit.removed`` (bool, aligned with ``Y.data``): certified or called
wrong; ``audit.cleaned()``: the labels without them. ``audit.under_test``: None or dict size, drawn, more_expected.
``audit.expected_gain(50)``: `Gain` (found, certified). ``audit.worth_going_on_``: bool. ``audit.status()``: all this in
a few sentences. ``audit.order`` and ``audit.probability``: the learned order of unanswered candidates, and how likely
each candidate is wrong.

**State.** Everything follows from data, settings and ``audit.events`` (list of `Event`: number, cell, answer, kind,
who, when, undoes; an undo is an event, too). Keep them anywhere, one line per event, and replay them with
``result.audit(events=events, **settings)``; or ``audit.save(path)`` and ``result.audit(resume=path)``.
``audit.fingerprint`` tells whether the data are the same, ``audit.settings`` are the parameters.
``result.audit(answers=...)`` starts with answers from before (`Answers`, DataFrame or CSV file): known, not drawn.

Not safe for use from several threads at once: hold a lock. `answer` fits again every twenty answers and when a test
ends (milliseconds; up to two seconds with a million candidates); everything else is quick.
"""

from pmlkit.cleaning.audit.answers import Answers
from pmlkit.cleaning.audit.certificate import Certificate
from pmlkit.cleaning.audit.engine import Audit
from pmlkit.cleaning.audit.record import Event, Gain, Question
from pmlkit.cleaning.estimates import Estimate

__all__ = ["Answers", "Audit", "Certificate", "Estimate", "Event", "Gain", "Question"]
