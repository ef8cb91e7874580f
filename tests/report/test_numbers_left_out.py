"""A number at an IoU threshold that is not among the metric's is in no comparison, no figure and on no page."""

import pytest

from reid_torchmetrics import DetectionMAP, VocMAP, write_report
from reid_torchmetrics.plot import plot_comparison
from reid_torchmetrics.tasks import compare
from tests.functional.detection.detection_samples import fed, images

METRICS = {"map_75": lambda: DetectionMAP(iou_thresholds=[0.5, 0.6]), "map_50": lambda: VocMAP(iou_thresholds=[0.75])}


@pytest.mark.parametrize("lacking", METRICS)
@pytest.mark.slow
def test_a_number_at_a_threshold_that_is_not_the_metrics_is_left_out(lacking, tmp_path):
    results = fed(METRICS[lacking](), *images(0)).results()
    comparison = compare(results, results, num_resamples=3, num_permutations=3)
    page = write_report(results, tmp_path / "page.html", comparison=comparison).read_text(encoding="utf-8")
    figure, _ = plot_comparison(comparison)
    labels = [text.get_text() for text in figure.findobj(match=lambda each: hasattr(each, "get_text"))]
    for each in ("map", "map_50", "map_75"):
        title, is_there = each.replace("map", "mAP").replace("_", ""), each != lacking
        assert (each in comparison.differences) == (each in comparison.to_dict()["measures"]) == is_there
        assert (f"\n  {each} " in str(comparison)) == is_there
        assert (f">{title} (%)<" in page) == is_there
        assert (title in labels) == is_there
