"""From lists of pairs: what the page on TorchMetrics' retrieval metrics says, recorded and of the installed version."""

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import __version__
from torchmetrics.retrieval import RetrievalMAP, RetrievalMRR, RetrievalNormalizedDCG, RetrievalPrecision

from reid_torchmetrics.functional import retrieval
from tests.coming_from.pages import PAGES, TASKS, Row, check_row, live, names, names_of, problem_of, recorded, rows
from tests.golden.cases import true_distances
from tests.golden.peers import assert_equal
from tests.test_docs import tables

REPORTS = {
    "MAP": "map",
    "MRR": "mrr",
    "Precision": "precision_5",
    "Recall": "recall_5",
    "HitRate": "hit_rate_5",
    "NormalizedDCG": "ndcg_5",
    "RPrecision": "r_precision",
}
LACKING = "a07_60q500g_lack"  # of its 60 queries 25 lack a positive
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
    preds, target, indexes = pairs_of(LACKING if is_live else case)
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


TABLE = next(table for table in tables(PAGES["torchmetrics_retrieval"]) if table.header[1] == "here")
NAMED = [row for row in TABLE.rows if re.fullmatch(r"`Retrieval\w+\((?:top_k=\d+)?\)`", row["TorchMetrics"])]


@pytest.mark.parametrize("row", NAMED, ids=lambda row: row["TorchMetrics"].strip("`"))
def test_the_expression_beside_a_metric_has_its_value(row: dict[str, str]) -> None:
    """By `empty_target_action="skip"`, which is the default here."""
    name, k = re.findall(r"Retrieval(\w+)\((?:top_k=)?(\d*)\)", row["TorchMetrics"])[0]
    expression, *options = re.findall(r"`(.+?)`", row["here"])
    chosen = eval(f"dict({', '.join(options)})")  # noqa: S307 - our own text
    reports = (*REPORTS.values(), "mrr_5")
    results = names("torchmetrics_retrieval")["retrieval"](*pairs_of(LACKING), reports=reports, **chosen)
    value = eval(expression, vars(retrieval) | TASKS | {"results": results})  # noqa: S307
    cutoff = "" if name == "RPrecision" else f"_k{k or None}"
    assert_equal(torch.as_tensor(value), recorded(f"{LACKING}/torchmetrics/{name}{cutoff}_skip"))


def test_the_table_of_names_has_the_metrics_that_have_a_counterpart() -> None:
    assert {row["TorchMetrics"].strip("`").partition("(")[0] for row in NAMED} == {
        f"Retrieval{name}" for name in REPORTS
    }


def test_torchmetrics_holds_as_many_bytes_of_a_pair_as_the_page_says() -> None:
    metric = RetrievalMAP()
    metric.update(torch.rand(3), torch.tensor([0, 1, 1]), indexes=torch.zeros(3, dtype=torch.int64))
    held = [getattr(metric, name)[0].element_size() for name in ("preds", "target", "indexes")]
    assert " + ".join(map(str, held)) + " bytes: 1.07 GB" in PAGES["torchmetrics_retrieval"]
    assert sum(held) * 3368 * 15913 == pytest.approx(1.07e9, abs=5e6)


@pytest.mark.parametrize("empty_target_action", ["neg", "pos", "skip"])
def test_the_function_reads_what_torchmetrics_reads(empty_target_action: str) -> None:
    """Ignored pairs, queries of which all are ignored, and grades above 1 in nDCG; scores differ and are above 0."""
    generator = torch.Generator().manual_seed(9)
    options = {"empty_target_action": empty_target_action, "ignore_index": -1}
    for _ in range(20):
        indexes = torch.randint(8, (40,), generator=generator)
        preds = torch.rand(40, generator=generator) + 0.01
        target = torch.randint(-1, 2, (40,), generator=generator)
        target[indexes < 2] = -1
        target[indexes == 2] = 0
        function = names("torchmetrics_retrieval")["retrieval"]
        ours = function(preds, target, indexes, reports=("map", "mrr_3", "precision_3"), **options).means
        metrics = {"map": RetrievalMAP(**options), "mrr_3": RetrievalMRR(top_k=3, **options)}
        metrics["precision_3"] = RetrievalPrecision(top_k=3, **options)
        for name, metric in metrics.items():
            assert ours[name] == pytest.approx(float(metric(preds, target, indexes)), abs=1e-6)
        grades = target * torch.randint(1, 5, (40,), generator=generator)
        grades[target == -1] = -1
        theirs = RetrievalNormalizedDCG(top_k=4, **options)(preds, grades, indexes)
        ours = function(preds, grades, indexes, reports=("ndcg_4",), **options).means
        assert ours["ndcg_4"] == pytest.approx(float(theirs), abs=1e-6)
    graded = function(
        torch.tensor([0.9, 0.8, 0.7]), torch.tensor([1, 0, 3]), torch.zeros(3).long(), reports=("ndcg_3",)
    )
    assert graded["ndcg_3"] == pytest.approx((1 + 3 / 2) / (3 + 1 / math.log2(3)))
