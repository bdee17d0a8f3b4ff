"""A review without its web server."""

from pmlkit.cleaning.review.applied import stored_certificate


def test_the_stored_certificate_follows_every_answer(review, strips):
    """What `pmlkit apply` promises must be what the audit promises now, also right after an answer is taken back."""
    truth = strips.truth.toarray()
    number = {name: k for k, name in enumerate(strips.label_names)}
    while review.audit.certificate is None and review.audit.n_answers < 500:
        card = review.card("ann", {})["card"]
        said = "right" if truth[card["row"], number[card["label"]]] else "wrong"
        cell = {name: card[name] for name in ("row", "label", "kind")}
        review.answer("ann", {**cell, "answer": said, "client": str(review.audit.n_answers)})
    assert stored_certificate(review.store)["cells"] == review.audit.certificate.cells.tolist()
    n_undone = 0
    while review.audit.certificate is not None:
        review.undo("ann", {"client": f"undo {n_undone}"})
        n_undone += 1
    assert 0 < n_undone < 500
    assert stored_certificate(review.store) == {}
