"""From embeddings: what the pages on Open Metric Learning and pytorch-metric-learning say of recorded numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import find_relevance, scores_from_matrix
from reid_torchmetrics.tasks import fnmr_at_fmr
from tests.coming_from.pages import Row, check_row, names, names_of, problem_of, rows
from tests.golden.cases import RECORDINGS, true_distances


def embeddings_of(case: str) -> list[Tensor]:
    """Embeddings and labels of a recorded problem; where it has a gallery of its own, those of the gallery behind."""
    inputs = {name: torch.from_numpy(array) for name, array in RECORDINGS["embeddings"].inputs[case].items()}
    if "embeddings" in inputs:
        return [inputs["embeddings"].double(), inputs["identities"]]
    query = [inputs["query_embeddings"].double(), inputs["query_identities"]]
    return [*query, inputs["gallery_embeddings"].double(), inputs["gallery_identities"]]


def non_match_rates(case: str) -> Tensor:
    """False non-match rates at the false match rates that OML was asked for."""
    problem = problem_of(case)
    labels = problem.query_identities, problem.gallery_identities, problem.query_cameras, problem.gallery_cameras
    relevance = find_relevance(*map(torch.from_numpy, labels), junk_identities=())
    return fnmr_at_fmr(
        scores_from_matrix(-torch.from_numpy(true_distances(case)), relevance), relevance, (0.001, 0.01, 0.1)
    ).rates


@pytest.mark.parametrize("row", rows("oml"), ids=names_of)
def test_oml_differs_as_the_page_says(row: Row) -> None:
    case, _, output = row.key.split("/")
    measure, _, k = output.removesuffix("_per_query").partition("_at_")
    name = {"cmc": f"hit_rate_{k}", "precision": f"precision_{k}", "map": "map", "fnmr": ""}[measure]

    def ours(options: dict[str, Any]) -> Tensor:
        if not name:
            return non_match_rates(case)
        values = names("oml")["retrieval_metrics"](*embeddings_of(case), **options).per_query[name]
        # Queries without positives have NaN here, which the mean leaves out, or counts as 0.
        return values.nan_to_num(nan=0.0) if options.get("empty_target_action") == "neg" else values[~values.isnan()]

    check_row(row, ours)


@pytest.mark.parametrize("row", rows("pytorch_metric_learning"), ids=names_of)
def test_pytorch_metric_learning_differs_as_the_page_says(row: Row) -> None:
    case, _, output = row.key.split("/")
    name = output.removesuffix("_avg_of_avgs").rpartition("_k")[0]
    check_row(row, lambda options: names(row.page)["get_accuracy"](*embeddings_of(case), **options)[name])
