"""The first pass over the data: counts, moments of the features, label pairs, and samples of rows by their content."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, Features, IntArray
from pmlkit.exceptions import PMLWarning
from pmlkit.methods.clear_pml.cells import Cells
from pmlkit.methods.clear_pml.feature_weighting import FeatureMoments, feature_moments
from pmlkit.methods.clear_pml.landmarks import HashSample, merge_smallest, smallest_hashes

__all__ = ["Survey", "candidate_table", "merge_surveys", "survey_block", "twin_labels", "warn_of_twin_labels"]

_TWINS, _ROWS_OF_TWINS = 0.95, 20  # Jaccard index of two labels, and candidates of each, above which they are told
_TWINS_NAMED = 3  # pairs


@dataclass(frozen=True)
class Survey:
    """What is known after the first pass.

    - `pairs` (n_labels, n_labels): on how many rows two labels meet; the labels' counts on the diagonal;
    - `everywhere`, `labelled`: the rows with the smallest hashes, of all rows and of those with cells;
    - `n_used`: rows with cells, of each block;
    - `n_given_rows`, `n_candidates`, `n_answers`: rows with given candidates, candidates after the answers, and
      answers.
    """

    moments: FeatureMoments
    pairs: CSR
    everywhere: HashSample
    labelled: HashSample
    n_used: list[int]
    n_given_rows: int
    n_candidates: int
    n_answers: int

    def packed(self) -> dict[str, Any]:
        """Return plain arrays and numbers, as engines send and store them."""
        moments = self.moments
        return {
            "moments": (moments.n_rows, moments.n_with, moments.mean, moments.variance),
            "pairs": self.pairs,
            "everywhere": self.everywhere,
            "labelled": self.labelled,
            "counts": (self.n_used, self.n_given_rows, self.n_candidates, self.n_answers),
        }

    @classmethod
    def of(cls, packed: dict[str, Any]) -> "Survey":
        """Return the survey of `packed`."""
        moments = FeatureMoments(*packed["moments"])
        return cls(moments, packed["pairs"], packed["everywhere"], packed["labelled"], *packed["counts"])


def survey_block(X: Features, Y: CSR, cells: Cells, first: int, *, size: int) -> dict[str, Any]:
    """Survey one block; `size` rows of the smallest hashes are kept."""
    everywhere = smallest_hashes(X, size)
    labelled = everywhere if cells.used.all() else smallest_hashes(X[cells.used], size)
    numbers = np.flatnonzero(cells.used)
    answered = cells.right | cells.wrong
    return Survey(
        feature_moments(X),
        sparse.csr_array(Y.T @ Y),
        (everywhere[0], everywhere[1] + first),
        (labelled[0], numbers[labelled[1]] + first),
        [cells.n_rows],
        int((np.diff(Y.indptr) > 0).sum()),
        int(cells.candidate.sum()),
        int(answered.sum()),
    ).packed() | {"size": size}


def merge_surveys(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the survey of two groups of blocks together."""
    a, b, size = Survey.of(first), Survey.of(second), first["size"]
    return Survey(
        a.moments.merged(b.moments),
        a.pairs + b.pairs,
        merge_smallest(a.everywhere, b.everywhere, size),
        merge_smallest(a.labelled, b.labelled, size),
        a.n_used + b.n_used,
        a.n_given_rows + b.n_given_rows,
        a.n_candidates + b.n_candidates,
        a.n_answers + b.n_answers,
    ).packed() | {"size": size}


def candidate_table(cells: Cells) -> CSR:
    """Return the candidates of all rows of a block."""
    everywhere = cells.of_all_rows()
    return everywhere.sparse_values(everywhere.candidate.astype(np.float64))


def chosen_rows(sample: HashSample, size: int) -> IntArray:
    """Return the rows with the smallest hashes, in their order in the data."""
    return np.sort(sample[1][:size])


def twin_labels(pairs: CSR, n_rows: int) -> list[tuple[int, int]]:
    """Return the pairs of labels with nearly the same candidates."""
    count = pairs.diagonal()
    meet = sparse.coo_array(pairs)
    first, second = meet.coords
    usual = (count > _ROWS_OF_TWINS) & (count < _TWINS * n_rows)
    twins = (first < second) & usual[first] & usual[second]
    twins &= meet.data > _TWINS * (count[first] + count[second] - meet.data)
    return sorted(zip(first[twins].tolist(), second[twins].tolist(), strict=True))


def warn_of_twin_labels(twins: list[tuple[int, int]], names: Sequence[Any]) -> None:
    """Warn of labels that cannot be distinguished by the data."""
    if twins:
        told = [f"{str(names[a])!r} and {str(names[b])!r}" for a, b in twins[:_TWINS_NAMED]]
        more = f" and {len(twins) - len(told)} more pairs" if len(twins) > len(told) else ""
        warnings.warn(
            f"Labels have nearly the same candidates: {', '.join(told)}{more}. The data cannot tell which of the two a "
            "row has: merge them, or do not trust their difference.",
            PMLWarning,
            stacklevel=3,
        )
