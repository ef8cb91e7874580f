"""The pictures of detectors that the callback logs: curves, errors and the worst images, by every evaluator."""

import numpy as np
import pytest

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from reid_torchmetrics.integrations import EvaluationPictures, drawings
from reid_torchmetrics.plot import figures
from tests.integrations.pictured_module import (
    DetectingModule,
    files,
    fit,
    image,
    loader,
    named,
    picture,
    pixels,
    trainer,
)
from tests.report.test_evaluators_in_reports import METRICS

pytestmark = pytest.mark.usefixtures("quiet_folder", "blank_figures")

OF_DETECTION = ("confidence", "confusion_matrix", "kinds_of_errors", "precision_recall", "worst_images")


@pytest.mark.slow
def test_a_detector_has_curves_and_its_worst_images(monkeypatch):
    seen = []
    monkeypatch.setattr(
        drawings.plot, "draw_box_grid", lambda *args, **options: seen.append((args, options)) or pixels()
    )
    callback = EvaluationPictures("val_boxes", pictures=lambda n: picture(n // 10))
    fit(callback, module=DetectingModule(), max_epochs=1)
    assert files() == named([f"val/{name}" for name in OF_DETECTION], 1)
    (((pictures, found, true), options),) = seen
    assert [np.asarray(each)[0, 0, 0] for each in pictures] == [0, 50]  # of the images 0 and 10
    assert [len(each["boxes"]) for each in found] == [0, 1]
    assert [int(each["image_id"]) for each in true] == [0, 10]
    assert true[1]["boxes"].tolist() == [[0, 0, 4, 4], [10, 10, 14, 16]]
    assert options["min_score"] == pytest.approx({1: 0.9, 2: 0.9})
    assert (options["box_format"], options["average"], options["class_names"]) == ("xyxy", "macro", {})


class NamingModule(DetectingModule):
    """Its images have names: "0", "10" and "20"."""

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        for number in range(3):
            found, true = image(number)
            self.val_boxes.update([found], [true | {"image_id": str(true["image_id"])}])


@pytest.mark.slow
def test_images_with_names_are_asked_for_by_them(monkeypatch):
    seen, asked = [], []
    monkeypatch.setattr(drawings.plot, "draw_box_grid", lambda *args, **options: seen.append(args) or pixels())
    callback = EvaluationPictures("val_boxes", pictures=lambda name: asked.append(name) or picture(0))
    trainer(callback, False).validate(NamingModule(), loader(), verbose=False)
    ((_, found, true),) = seen
    assert asked == ["0", "10"]
    assert [each["image_id"] for each in true] == ["0", "10"]
    assert [len(each["boxes"]) for each in found] == [0, 1]


def validate_with(metric, **options) -> None:
    module = DetectingModule()
    module.val_boxes = metric
    trainer(EvaluationPictures("val_boxes", **options), False).validate(module, loader(), verbose=False)


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.slow
def test_metrics_of_every_evaluator_have_figures_and_the_worst_images(evaluator, monkeypatch):
    seen, draw = [], drawings.plot.draw_box_grid
    monkeypatch.setattr(drawings.plot, "draw_box_grid", lambda *a, **k: seen.append(k["evaluator"]) or draw(*a, **k))
    validate_with(METRICS[evaluator](metric="map"), pictures=lambda n: picture(n // 10))
    names = ["confidence", "confusion_matrix", "precision_recall", "worst_images"]
    # Repairs are defined where a detection takes the best ground truth that is left.
    names += ["kinds_of_errors"] * EVALUATORS[evaluator].has_breakdown
    assert files() == named([f"val/{name}" for name in names], 0)
    assert seen == [EVALUATORS[evaluator]]


@pytest.mark.slow
def test_classes_have_the_names_of_the_metric(monkeypatch):
    seen, plot = [], figures.plot_confusion_matrix
    passing = lambda *a, class_names, **k: seen.append(class_names) or plot(*a, **k)  # noqa: E731
    monkeypatch.setattr(figures, "plot_confusion_matrix", passing)
    validate_with(DetectionMAP(metric="map", class_names={1: "cat"}))
    assert seen == [{1: "cat"}]


@pytest.mark.slow
def test_below_an_overlap_of_a_tenth_there_is_no_confusion():
    validate_with(DetectionMAP(metric="map", iou_thresholds=[0.05]))
    assert files() == named(["val/confidence", "val/precision_recall"], 0)


@pytest.mark.slow
def test_a_detector_without_the_usual_overlap_is_drawn_at_the_nearest(monkeypatch):
    seen, plot = [], figures.plot_detection_confidence
    monkeypatch.setattr(
        figures, "plot_detection_confidence", lambda *a, **k: seen.append(k["iou_threshold"]) or plot(*a, **k)
    )
    validate_with(DetectionMAP(metric="map", iou_thresholds=[0.3, 0.6]), pictures=lambda n: picture(n // 10))
    assert seen == [0.6]


@pytest.mark.slow
@pytest.mark.usefixtures("drawn_figures")
def test_the_callback_warns_once_of_characters_that_a_font_lacks():
    module = DetectingModule()
    module.val_boxes = DetectionMAP(metric="map", class_names={1: "狗", 2: "猫"})
    with pytest.warns(UserWarning, match="The font DejaVu Sans has no glyphs for '狗', '猫'") as caught:
        fit(EvaluationPictures("val_boxes"), module=module, max_epochs=2)
    assert len([each for each in caught if "lyph" in str(each.message)]) == 1
