"""From distances and labels: what pages of five tools say of recorded numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torch
from torch import Tensor

from reid_torchmetrics import KReciprocal, QueryExpansion
from reid_torchmetrics.functional.retrieval import find_relevance, scores_from_matrix
from reid_torchmetrics.tasks import verify
from tests.coming_from.pages import Row, check_row, names, names_of, problem_of, rows
from tests.golden.cases import true_distances
from tests.tasks.reranking.test_golden_reranking import embeddings

MAX_RANK = 20  # what recorded curves were asked for

pytestmark = pytest.mark.filterwarnings("ignore:no query")


def arrays(case: str) -> tuple[np.ndarray, ...]:
    """distmat, q_pids, g_pids, q_camids, g_camids."""
    problem = problem_of(case)
    labels = problem.query_identities, problem.gallery_identities, problem.query_cameras, problem.gallery_cameras
    return problem.distances, *labels


def reranked(options: dict[str, Any]) -> Tensor:
    """Distances after re-ranking."""
    return options.get("rerank", KReciprocal()).rerank(*embeddings()).distances()


def accept_rates(case: str) -> Tensor:
    """True accept rates at the false accept rates that fast-reid was asked for."""
    problem = problem_of(case)
    relevance = find_relevance(*map(torch.from_numpy, arrays(case)[1:]), junk_identities=())
    pairs = scores_from_matrix(-torch.from_numpy(true_distances(case)), relevance)
    assert len(problem.distances) == relevance.num_queries
    return verify(pairs, relevance).tar_at_far([1e-4, 1e-3, 1e-2])


@pytest.mark.parametrize("row", rows("torchreid"), ids=names_of)
def test_torchreid_differs_as_the_page_says(row: Row) -> None:
    case, _, output = row.key.split("/")

    def ours(options: dict[str, Any]) -> Any:
        if case == "g01_rerank":
            return reranked(options)
        curve, precision = names("torchreid")["evaluate_rank"](*arrays(case), **{"max_rank": MAX_RANK} | options)
        return precision if "mAP" in output else curve

    check_row(row, ours)


@pytest.mark.parametrize("row", rows("open_reid"), ids=names_of)
def test_open_reid_differs_as_the_page_says(row: Row) -> None:
    case, _, output = row.key.split("/")
    made = names("open_reid")
    if output in {"mAP", "mean_ap"}:
        check_row(row, lambda options: made["mean_ap"](*arrays(case), **options))
    else:
        check_row(row, lambda options: made["cmc"](*arrays(case), MAX_RANK, first_match_break=True, **options))


@pytest.mark.parametrize("row", rows("fast_reid"), ids=names_of)
def test_fast_reid_differs_as_the_page_says(row: Row) -> None:
    case, evaluator, output = row.key.split("/")

    def ours(options: dict[str, Any]) -> Any:
        if evaluator == "fastreid_aqe":
            return options.get("rerank", QueryExpansion()).expand(*embeddings())[0]
        if evaluator == "fastreid_roc":
            return accept_rates(case)
        found = names("fast_reid")["evaluate_rank"](*arrays(case), **{"max_rank": MAX_RANK} | options)
        return found[{"AP_valid_queries": 1, "INP_valid_queries": 2}.get(output, 0)]

    check_row(row, ours)


@pytest.mark.parametrize("row", rows("layumi"), ids=names_of)
def test_layumi_differs_as_the_page_says(row: Row, tmp_path: Path) -> None:
    case, _, output = row.key.split("/")

    def ours(options: dict[str, Any]) -> Any:
        if case == "g01_rerank":
            return reranked(options)
        curve, precision = names("layumi")["evaluate_gpu"](written(case, tmp_path), **options)
        return precision if output == "mAP" else curve

    check_row(row, ours)


@pytest.mark.parametrize("row", rows("transreid"), ids=names_of)
def test_transreid_differs_as_the_page_says(row: Row) -> None:
    case, _, output = row.key.split("/")

    def ours(options: dict[str, Any]) -> Any:
        distances, q_pids, g_pids, q_camids, g_camids = arrays(case)
        made = names("transreid")["R1_mAP_eval"](
            len(distances), **{"similarity": "dot", "max_rank": MAX_RANK} | options
        )
        made.reset()
        made.update((torch.eye(len(distances), dtype=torch.float64), q_pids, q_camids))
        made.update((-torch.from_numpy(distances.T), g_pids, g_camids))
        return made.compute()[output == "mAP"]

    check_row(row, ours)


def written(case: str, folder: Path) -> Path:
    """A `pytorch_result.mat` of a recorded problem: one-hot queries, so that the scores are minus the distances."""
    distances, *labels = arrays(case)
    path = folder / "pytorch_result.mat"
    names_of_labels = ("query_label", "gallery_label", "query_cam", "gallery_cam")
    features = {"query_f": np.eye(len(distances)), "gallery_f": -distances.T}
    scipy.io.savemat(path, features | dict(zip(names_of_labels, labels, strict=True)))
    return path
