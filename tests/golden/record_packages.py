"""Records numbers of packages of lists, pairs and duplicates: run it where they are installed, in the project's root.

    pip install torch==2.13.0
    pip install sentence-transformers==6.2.0 torch_geometric==2.8.1 pyannote.metrics==4.2.0
    pip install --no-deps imagededup==0.3.3.post2 speechbrain==1.1.2
    python -m tests.golden.record_packages

The lists and the pairs are those of `fields/lists.npz` and `fields/pairs.npz`; the duplicates are drawn here.
speechbrain imports torchaudio, and imagededup torchvision, neither for these functions: mocks stand for both.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from tests.golden.field_cases import FieldCase, load_field

FOLDER = Path(__file__).parent
CUTOFFS = (1, 5, 20)
FILES = 14
VISION = ("torchvision", "torchvision.models", "torchvision.models.vision_transformer", "torchvision.transforms")


class Encoder:
    """A model that returns given embeddings for the numbers of its sentences."""

    similarity_fn_name = "cosine"

    def __init__(self, embeddings: np.ndarray) -> None:
        """Take the embeddings by number."""
        self.embeddings = embeddings

    def encode(self, sentences: Any, **_: object) -> np.ndarray:
        """Return the embeddings of sentences."""
        return self.embeddings[[int(sentence) for sentence in sentences]]


def of_lists(case: FieldCase) -> dict[str, float]:
    """The numbers of lists by "evaluator/output"."""
    import torch  # noqa: PLC0415 - not installed where the tests run
    from sentence_transformers.sentence_transformer import evaluation  # noqa: PLC0415
    from torch_geometric import metrics  # noqa: PLC0415

    retrieved, positives = ([row.tolist() for row in case.lists(name)] for name in ("retrieved", "positives"))
    num_gallery = int(case.inputs["num_gallery"])
    relevant = {str(query): {str(item) for item in items} for query, items in enumerate(positives)}
    evaluator = evaluation.InformationRetrievalEvaluator(
        dict.fromkeys(relevant, ""),
        dict.fromkeys(map(str, range(num_gallery)), ""),
        relevant,
        **dict.fromkeys(("mrr_at_k", "ndcg_at_k", "accuracy_at_k", "precision_recall_at_k", "map_at_k"), CUTOFFS),
    )
    hits = [
        [{"corpus_id": str(item), "score": -place} for place, item in enumerate(retrieved[int(query)])]
        for query in evaluator.queries_ids
    ]
    recorded = {
        f"sentence-transformers/{name[:-1]}{k}": float(value)
        for name, values in evaluator.compute_metrics(hits).items()
        for k, value in values.items()
    }
    # An item that is no positive of a query stands at the end of shorter lists.
    matrix = np.full((len(retrieved), max(CUTOFFS)), num_gallery)
    for row, items in zip(matrix, retrieved, strict=True):
        row[: len(items)] = items[: max(CUTOFFS)]
    edges = torch.tensor([[query, item] for query, items in enumerate(positives) for item in items]).T
    for name in ("MAP", "MRR", "NDCG", "Precision", "Recall", "HitRatio"):
        for k in CUTOFFS:
            metric = getattr(metrics, f"LinkPred{name}")(k)
            metric.update(torch.from_numpy(matrix), edges)
            recorded[f"torch_geometric/LinkPred{name}({k})"] = float(metric.compute())
    return recorded


def of_pairs(case: FieldCase) -> dict[str, float]:
    """The numbers of pairs by "evaluator/output"."""
    import torch  # noqa: PLC0415
    from pyannote.metrics.binary_classification import det_curve  # noqa: PLC0415
    from sentence_transformers.sentence_transformer import evaluation  # noqa: PLC0415
    from speechbrain.utils.metric_stats import EER  # noqa: PLC0415

    scores, same = case.inputs["scores"], case.inputs["same"].astype(bool)
    sides = np.concatenate([scores, np.ones_like(scores)])[:, None]  # whose inner products are the scores
    numbers = [str(number) for number in range(len(sides))]
    evaluator = evaluation.BinaryClassificationEvaluator(
        numbers[: len(same)], numbers[len(same) :], same.astype(int).tolist(), similarity_fn_names=["dot"]
    )
    found = evaluator.compute_metrics(Encoder(sides))["dot"]
    return {
        "speechbrain/EER": EER(torch.from_numpy(scores[same]), torch.from_numpy(scores[~same]))[0],
        "pyannote/eer": float(det_curve(same, scores)[3]),
        **{f"sentence-transformers/dot_{name}": float(found[name]) for name in ("accuracy", "f1", "ap")},
    }


def of_duplicates(seed: int) -> dict[str, Any]:
    """Drawn duplicates of files, and the numbers of imagededup."""
    from imagededup.evaluation import evaluate  # noqa: PLC0415

    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 7, FILES)
    is_same = labels[:, None] == labels
    chance = np.triu(generator.random((FILES, FILES)), 1)
    is_found = np.where(is_same, 0.4, 0.9) < chance
    lists = [
        [generator.permutation(np.flatnonzero(row)).tolist() for row in matrix]
        for matrix in (is_same & ~np.eye(FILES, dtype=bool), is_found | is_found.T)
    ]
    true, retrieved = ({str(file): [str(item) for item in row] for file, row in enumerate(side)} for side in lists)
    numbers = {name: float(evaluate(true, retrieved, metric=name)[name]) for name in ("map", "ndcg", "jaccard")}
    return {
        "positives": lists[0],
        "retrieved": lists[1],
        "numbers": {f"imagededup/{name}": value for name, value in numbers.items()},
    }


def main() -> None:
    """Record all numbers."""
    logging.disable()
    lists = [case for case in load_field("lists") if case.name[0] == "c" and not case.name.endswith("duplicates")]
    recorded = {
        "lists": {case.name: of_lists(case) for case in lists},
        "pairs": {},
        "duplicates": {},
    }
    sys.modules |= {name: MagicMock(__path__=[]) for name in (*VISION, "torchaudio", "torchaudio.transforms")}
    recorded["pairs"] = {case.name: of_pairs(case) for case in load_field("pairs")}
    recorded["duplicates"] = {f"seed{seed}": of_duplicates(seed) for seed in range(4)}
    (FOLDER / "packages.json").write_text(f"{json.dumps(recorded, indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
