"""From lists of pairs: what the page on TorchMetrics' retrieval metrics says, recorded and of the installed version."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import __version__
from torchmetrics.retrieval import RetrievalMAP

from tests.coming_from.pages import Row, check_row, live, names, names_of, problem_of, rows
from tests.golden.cases import true_distances

REPORTS = {
    "MAP": "map",
    "MRR": "mrr",
    "Precision": "precision_5",
    "Recall": "recall_5",
    "HitRate": "hit_rate_5",
    "NormalizedDCG": "ndcg_5",
    "RPrecision": "r_precision",
}
IGNORES_SCORES_UP_TO_ZERO = tuple(map(int, __version__.split(".")[:3])) >= (1, 7, 4)


def pairs_of(case: str) -> tuple[Tensor, Tensor, Tensor]:
    """preds, target and indexes of a problem as TorchMetrics was given them: 1 - distance, and -1 for junk."""
    problem = problem_of(case)
    same, near = (
        torch.from_numpy(query)[:, None] == torch.from_numpy(gallery)
        for query, gallery in (
            (problem.query_identities, problem.gallery_identities),
            (problem.query_cameras, problem.gallery_cameras),
        )
    )
    is_junk = (same & near) | (torch.from_numpy(problem.gallery_identities) == -1)
    target = torch.where(is_junk, -1, same.long())
    indexes = torch.arange(len(target))[:, None].expand_as(target)
    return (1 - torch.from_numpy(true_distances(case))).flatten(), target.flatten(), indexes.flatten()


@pytest.mark.filterwarnings("ignore:no query")
@pytest.mark.parametrize("row", rows("torchmetrics_retrieval"), ids=names_of)
def test_the_retrieval_metrics_differ_as_the_page_says(row: Row) -> None:
    case, _, output = row.key.split("/")
    report, is_live = REPORTS[output.partition("_")[0]], case == "live"
    preds, target, indexes = pairs_of("a07_60q500g_lack" if is_live else case)
    preds = preds - int(is_live)

    def ours(options: dict[str, Any]) -> float:
        return names(row.page)["retrieval"](preds, target, indexes, reports=(report,), **options).means[report]

    theirs = None
    if is_live:
        if not IGNORES_SCORES_UP_TO_ZERO:
            pytest.skip("TorchMetrics takes scores of 0 and less for positives since 1.7.4")
        metric = RetrievalMAP(empty_target_action="skip", ignore_index=-1)
        theirs = live(row, metric(preds, target, indexes=indexes), precision="float32")
    check_row(row, ours, theirs)
