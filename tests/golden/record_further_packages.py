"""Records numbers of further packages of lists and pairs: run it where they are installed, in the project's root.

    pip install numpy==1.26.4 torch==2.13.0 pytrec-eval-terrier==0.5.11 scikit-learn pandas numba
    pip install --no-deps torch_geometric==2.8.1 mteb==2.26.24 bob.measure==6.1.1
    python -m tests.golden.record_further_packages

The lists and the pairs are those of `fields/lists.npz` and `fields/pairs.npz`. mteb's numbers of rankings are in one
module, which needs none of the packages that load models; a mock stands for its others.
"""

import json
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from tests.golden.field_cases import FieldCase, load_field

FOLDER = Path(__file__).parent
CUTOFFS = (1, 5, 20)
RATES = (1e-3, 1e-2, 1e-1)
"""the false accept rates of bob's `roc_for_far`"""


def module_of_mteb() -> Any:
    """The module of mteb that computes numbers of rankings."""
    package = find_spec("mteb")
    path = Path(*package.submodule_search_locations) / "_evaluators" / "retrieval_metrics.py"
    sys.modules |= {name: MagicMock(__path__=[]) for name in ("mteb", "mteb.types")}
    sys.modules["mteb.types"].RetrievalEvaluationResult = dict
    spec = spec_from_file_location("retrieval_metrics", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_lists(case: FieldCase, metrics: Any) -> dict[str, float]:
    """The numbers of lists by "evaluator/output"."""
    import torch  # noqa: PLC0415 - not installed where the tests run
    from torch_geometric.metrics import LinkPredF1  # noqa: PLC0415

    retrieved, positives = ([row.tolist() for row in case.lists(name)] for name in ("retrieved", "positives"))
    num_gallery = int(case.inputs["num_gallery"])
    # A query without a positive has one item that was judged, as mteb needs some for each query.
    judged = {
        str(query): {str(item): 1 for item in items} or {str(num_gallery): 0} for query, items in enumerate(positives)
    }
    run = {
        str(query): {str(item): float(-place) for place, item in enumerate(items)}
        for query, items in enumerate(retrieved)
        if items
    }
    found = metrics.calculate_retrieval_scores(run, judged, CUTOFFS)
    names = {"ndcg": "ndcg", "map": "_map", "recall": "recall", "precision": "precision", "hit_rate": "hit_rate"}
    scores = metrics.make_score_dict(
        **{argument: found[name] for name, argument in names.items()},
        mrr=found["mrr"],
        naucs={},
        naucs_mrr={},
        task_scores={},
    )
    recorded = {f"mteb/{name}": float(value) for name, value in scores.items()}
    # An item that is no positive of a query stands at the end of shorter lists.
    matrix = np.full((len(retrieved), max(CUTOFFS)), num_gallery)
    for row, items in zip(matrix, retrieved, strict=True):
        row[: len(items)] = items[: max(CUTOFFS)]
    edges = torch.tensor([[query, item] for query, items in enumerate(positives) for item in items]).T
    for k in CUTOFFS:
        metric = LinkPredF1(k)
        metric.update(torch.from_numpy(matrix), edges)
        recorded[f"torch_geometric/LinkPredF1({k})"] = float(metric.compute())
    return recorded


def of_pairs(case: FieldCase) -> dict[str, float]:
    """The numbers of pairs by "evaluator/output"."""
    from bob import measure  # noqa: PLC0415

    scores, same = case.inputs["scores"].astype(float), case.inputs["same"].astype(bool)
    impostors, genuine = scores[~same], scores[same]
    reject_rates = measure.roc_for_far(impostors, genuine, RATES)[1]
    return {
        "bob.measure/eer": float(measure.eer(impostors, genuine)),
        **{f"bob.measure/frr_at_far_{far:g}": float(frr) for far, frr in zip(RATES, reject_rates, strict=True)},
    }


def main() -> None:
    """Record all numbers."""
    metrics = module_of_mteb()
    lists = [case for case in load_field("lists") if case.name[0] == "c" and not case.name.endswith("duplicates")]
    recorded = {
        "lists": {case.name: of_lists(case, metrics) for case in lists},
        "pairs": {case.name: of_pairs(case) for case in load_field("pairs")},
    }
    (FOLDER / "further_packages.json").write_text(f"{json.dumps(recorded, indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
