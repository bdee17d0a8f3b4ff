"""ML-kNN against scikit-multilearn-ng's, side by side on data of the size of scene (2,407 x 294)."""

import numpy as np
from scipy import sparse

from _common import load, side_by_side
from pmlkit import MLkNN
from pmlkit.data import make_pml


def main() -> None:
    """Fit and score with both, in turns."""
    try:
        from skmultilearn.adapt import MLkNN as Other
    except ImportError:
        print("skipped: pip install scikit-multilearn-ng to compare with it")
        return
    data = load("scene") or make_pml(2407, 294, 6, cardinality=1.1, noise=0.0, random_state=0)
    X, Y = np.asarray(data.X), data.truth.toarray().astype(int)
    seconds = side_by_side(
        {
            "ours": lambda: MLkNN().fit(X, Y).decision_function(X),
            "scikit-multilearn-ng": lambda: (
                Other(k=10).fit(sparse.lil_matrix(X), sparse.lil_matrix(Y)).predict_proba(X)
            ),
        }
    )
    ours, other = seconds["ours"], seconds["scikit-multilearn-ng"]
    print(f"fit and score 2,407 rows: {ours:.3f} s against {other:.3f} s, {other / ours:.1f} times as fast")


if __name__ == "__main__":
    main()
