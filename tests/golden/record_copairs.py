"""Draws the problem of `copairs.npz`, and records what copairs gives for it.

    pip install copairs==0.5.5
    python record_copairs.py copairs.npz

copairs takes the pairs by the labels in which they are equal and those in which they are different, for positives and
for negatives. A label in which both must be equal is one of `must_agree`, a label in which both must be different is
one of `must_differ`.
"""

import sys

import numpy as np
import pandas as pd

SAMPLES, DIMENSION = 90, 6
RULES = {
    "none": ([], []),
    "differ": ([], ["batch"]),
    "agree": (["side"], []),
    "both": (["side"], ["batch"]),
    "two_differ": ([], ["batch", "plate"]),
    "two_agree": (["side", "plate"], []),
}
"""the labels that agree and those that differ"""


def main():
    """Record the average precision and the numbers of pairs of each sample under all rules."""
    from copairs.map import average_precision  # noqa: PLC0415 - the tests have no copairs

    rng = np.random.default_rng(0)
    embeddings = rng.standard_normal((SAMPLES, DIMENSION)).astype(np.float32)
    labels = {
        "compound": rng.integers(0, 6, SAMPLES),
        "batch": rng.integers(0, 3, SAMPLES),
        "plate": rng.integers(0, 2, SAMPLES),
        "side": np.array(["left", "right"])[rng.integers(0, 2, SAMPLES)],
    }
    arrays = {"embeddings": embeddings, **labels}
    for name, (agree, differ) in RULES.items():
        found = average_precision(
            pd.DataFrame(labels),
            embeddings,
            pos_sameby=["compound", *agree],
            pos_diffby=differ,
            neg_sameby=agree,
            neg_diffby=["compound", *differ],
            progress_bar=False,
        )
        columns = ["average_precision", "n_pos_pairs", "n_total_pairs"]
        arrays[f"{name}/values"] = found[columns].to_numpy(dtype=np.float64)
    np.savez_compressed(sys.argv[1], **arrays)


if __name__ == "__main__":
    main()
