"""Two models in a report: the numbers are those of the comparison, which must be of the results."""

import json
import math

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.retrieval import evaluate_scores
from reid_torchmetrics.report import write_report
from reid_torchmetrics.report.elements import Html
from reid_torchmetrics.report.write import _difference_row, _list_queries
from reid_torchmetrics.tasks import Difference, compare
from tests.report import problems
from tests.report.pages import data, parse, read, section

pytestmark = pytest.mark.usefixtures("empty_figures")

NAN = math.nan

# Query 0 is no longer right at first, its average precision is (1/2 + 2/3) / 2 = 7/12; query 1 is: (1 + 2/3) / 2 = 5/6.
OTHER_SCORES = torch.tensor([[0.8, 0.7, 0.9, 0.1], [0.5, 0.4, 0.9, 0.45], [0.2, 0.4, 0.3, 0.1]])


@pytest.fixture(scope="module")
def models():
    a = problems.retrieval(reports=("map", "rank_1", "mean_rank"))
    b = evaluate_scores(OTHER_SCORES, *problems.LABELS, reports=("map", "rank_1", "mean_rank"))
    comparison = compare(a, b, generator=torch.Generator().manual_seed(0), num_resamples=100, num_permutations=100)
    return a, b, comparison


@pytest.mark.slow
def test_the_differences_are_those_of_the_comparison(models, tmp_path):
    _, b, comparison = models
    page = read(write_report(b, tmp_path / "r.html", comparison=comparison))
    assert page.one("h1").text == "a and b compared"
    assert page.all("section")[0].attributes["id"] == "comparison"
    assert read(write_report(b, tmp_path / "alone.html")).all("section", id="comparison") == []
    shown = section(page, "comparison")
    rows = {row["measure"]: row for row in shown.rows("Differences of a and b, and their numbers")}
    precision, first = rows["mAP (%)"], rows["Mean rank"]
    # (7/12 + 5/6) / 2 = 17/24 = 70.83 %, and 17/24 - 2/3 = 1/24
    assert [precision[key] for key in ("a", "b", "b - a")] == ["66.67", "70.83", "○ +4.17"]
    assert [precision[key] for key in ("queries better", "worse", "equal")] == ["1", "1", "0"]
    assert precision["p"] == f"○ {comparison.differences['map'].p_value:.4f}"
    assert [first[key] for key in ("a", "b", "b - a")] == ["1.50", "1.50", "○ 0"]
    assert "All other sections are about b." in shown.text
    assert len(shown.all("figure")) == 1
    assert data(page)["comparison"]["measures"]["map"]["num_better"] == 1


@pytest.mark.parametrize(
    ("p_value", "p_holm", "dot"),
    [(0.05, NAN, "●"), (0.06, NAN, "○"), (0.02, 0.06, "○"), (0.02, 0.04, "●"), (NAN, NAN, "")],
)
def test_a_dot_is_filled_where_the_last_p_value_is_at_most_0_05(p_value, p_holm, dot):
    difference = Difference(0.5, 0.6, 0.1, 0.05, 0.2, p_value, 3, 1, 0, is_rank=False, p_holm=p_holm)
    cells = _difference_row(difference, has_holm=p_holm >= 0, significance=0.05)
    texts = [parse(cell).text if isinstance(cell, Html) else cell for cell in cells]
    last_p_text = texts[4] if p_holm >= 0 else texts[3]
    assert texts[1] == f"{dot} +10.00".lstrip()
    assert last_p_text.startswith(dot or "n/a")
    assert not any("○" in text or "●" in text for text in (texts[2], *texts[5:]))


@pytest.mark.slow
def test_the_queries_that_were_gained_and_lost_are_listed(models, tmp_path):
    a, _, comparison = models
    shown = section(read(write_report(a, tmp_path / "r.html", comparison=comparison)), "comparison")
    assert "All other sections are about a." in shown.text
    assert f"Both: {a.setup}." in shown.text
    listed = {each.one("summary").text: each.one("p").text for each in shown.all("details")}
    assert listed == {
        "Queries whose first candidate is right in b alone: 1": "1",
        "Queries whose first candidate is right in a alone: 1": "0",
    }


def test_queries_that_changed_are_listed_by_number_the_first_fifty_of_them():
    none, few, many = (_list_queries("Gained", torch.arange(number)) for number in (0, 2, 53))
    assert none == "<p>Gained: 0.</p>"
    assert "Gained: 2<" in few
    assert "<p>0, 1</p>" in few
    assert "Gained: 53<" in many
    assert "48, 49 and 3 more, see the JSON below</p>" in many


def test_a_comparison_of_others_is_refused(models, tmp_path):
    _, _, comparison = models
    other = evaluate_scores(-OTHER_SCORES, *problems.LABELS, reports=("map", "rank_1", "mean_rank"))
    with pytest.raises(
        ValueError, match=r"^`comparison` must be of `results` and of others; got one of other numbers\.$"
    ):
        write_report(other, tmp_path / "r.html", comparison=comparison)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
def test_models_go_by_their_names_and_each_of_several_has_a_table(models, tmp_path):
    a, b, _ = models
    three = {"baseline": a, "wider": b, "same": a}
    comparison = compare(three, num_resamples=20, num_permutations=20)
    page = read(write_report(b, tmp_path / "r.html", comparison=comparison))
    assert page.one("h1").text == "baseline, wider and same compared"
    shown = section(page, "comparison")
    assert "All other sections are about wider." in shown.text
    assert "sign flips of queries; seed 0" in shown.text
    for name in ("wider", "same"):
        rows = {row["measure"]: row for row in shown.rows(f"Differences of baseline and {name}, and their numbers")}
        columns = [*rows["mAP (%)"]]
        assert columns[1:5] == [f"{name} - baseline", "95 % interval", "p", "p by Holm"]
        assert columns[5:] == ["baseline", name, "queries better", "worse", "equal"]
        of = comparison.by_name[name].differences["map"]
        assert rows["mAP (%)"]["p by Holm"] == f"○ {of.p_holm:.4f}"
    assert len(shown.all("figure")) == 2
    assert "Queries whose first candidate is right in wider alone: 1" in shown.text


@pytest.mark.slow
def test_detectors_are_compared_on_the_page_of_one(tmp_path):
    ours = problems.detection()
    metric = DetectionMAP()
    metric.update([item | {"scores": torch.tensor([0.25])} for item in problems.DETECTIONS], problems.GROUND_TRUTHS)
    other = metric.results()
    comparison = compare({"old": other, "new": ours}, num_resamples=5, num_permutations=5)
    page = read(write_report(ours, tmp_path / "r.html", comparison=comparison))
    shown = section(page, "comparison")
    rows = {row["measure"]: row for row in shown.rows("Differences of old and new, and their numbers")}
    # With equal scores the right box comes first as well, as its image does: 51/101 and 1 in both.
    assert rows["mAP (%)"]["old"] == rows["mAP (%)"]["new"] == f"{100 * (51 / 101 + 1) / 2:.2f}"
    columns = ("new - old", "p", "classes better", "equal")
    assert [rows["mAP (%)"][name] for name in columns] == ["○ 0.00", "○ 1.0000", "0", "2"]
    assert "All other sections are about new." in shown.text
    assert data(page)["comparison"]["names"] == ["old", "new"]
    assert json.loads(section(page, "provenance").one("pre").text) == data(page)
    with pytest.raises(ValueError, match=r"^`comparison` must be of `results`"):
        write_report(DetectionMAP().results(), tmp_path / "o.html", comparison=comparison)
