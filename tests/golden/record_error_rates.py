"""Records equal error rates of packages of verification: run it where they are installed, in the project's root.

    pip install torchmetrics==1.9.0 pyeer==0.5.6 audmetric==1.4.2 scikit-learn
    python -m tests.golden.record_error_rates

Each was given the scores of the cases of `fields/pairs.npz`, mapped to [0, 1] by their order for TorchMetrics, which
applies a sigmoid to others.
"""

import json
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent


def record() -> dict[str, dict[str, float]]:
    """The rates by case and "evaluator/output"."""
    import audmetric  # noqa: PLC0415 - not installed where the tests run
    import torch  # noqa: PLC0415
    from pyeer.eer_info import get_eer_stats  # noqa: PLC0415
    from torchmetrics.classification import BinaryEER  # noqa: PLC0415

    arrays = np.load(FOLDER / "fields" / "pairs.npz")
    recorded = {}
    for name in sorted({key.partition("/")[0] for key in arrays.files}):
        scores, same = arrays[f"{name}/in/scores"], arrays[f"{name}/in/same"].astype(bool)
        ranks = np.unique(scores, return_inverse=True)[1] / len(scores)
        metric = BinaryEER()
        metric.update(torch.from_numpy(ranks), torch.from_numpy(same).long())
        recorded[name] = {
            "torchmetrics/BinaryEER": float(metric.compute()),
            "pyeer/eer": float(get_eer_stats(scores[same], scores[~same]).eer),
            "audmetric/equal_error_rate": float(audmetric.equal_error_rate(same, scores)[0]),
        }
    return recorded


if __name__ == "__main__":
    text = json.dumps(record(), indent=1)
    (FOLDER / "error_rates.json").write_text(f"{text}\n", encoding="utf-8")
