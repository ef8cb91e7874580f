"""A collection of detection metrics with one number each, for logging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchmetrics import Metric, MetricCollection
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._extras import require
from reid_torchmetrics.functional.detection import evaluation
from reid_torchmetrics.metrics import base

from .detection_map import DetectionMAP, DetectionOptions

_VALUES_AT_CONFIDENCE = ("precision_50", "recall_50", "f1_50")
_MEMBER_ARGUMENTS = base.arguments_of(DetectionMAP)
# The collection has its own arguments for these.
del _MEMBER_ARGUMENTS["metric"]
del _MEMBER_ARGUMENTS["confidence"]


class DetectionMetrics(MetricCollection):
    """COCO's numbers, and precision, recall and F1 of boxes, as a `MetricCollection`: `map`, `map_50`, ..., `f1_50`.

    All members are 0-d tensors, ready for `self.log_dict`, and share one set of images and one matching.

    Args:
        values: names of numbers, see `metric` of `DetectionMAP`; None for all of COCO's and `precision_50`,
            `recall_50` and `f1_50`.
        classes: names of classes by label, or labels: numbers of these classes are added, as "map/dog" or "map/7".
            Without `class_names`, the names are also those in `results`.
        class_values: names of the numbers for each of these classes; None for the mean average precision.
        confidence: the confidence for precision, recall and F1; None for the one with the highest mean of F1.
        prefix: the text before every name, for instance "val/".
        postfix: the text after every name.
        options: see `DetectionMAP`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value, a repeated name, or a name with a dot.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import DetectionMetrics
        >>> metrics = DetectionMetrics(("map", "f1_50"), classes={3: "dog"})
        >>> boxes = torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]])
        >>> detections = {"boxes": boxes[:1], "scores": torch.tensor([0.9]), "labels": torch.tensor([3])}
        >>> metrics.update([detections], [{"boxes": boxes, "labels": torch.tensor([3, 3])}])
        >>> metrics.compute()  # one of two is found, and nothing else
        {'map': tensor(0.5050), 'f1_50': tensor(0.6667), 'map/dog': tensor(0.5050)}
    """

    @base.explicit_signature(
        {name: parameter.annotation for name, parameter in _MEMBER_ARGUMENTS.items()},
        {name: parameter.default for name, parameter in _MEMBER_ARGUMENTS.items()},
    )
    def __init__(
        self,
        values: Sequence[str] | None = None,
        *,
        classes: Mapping[int, str] | Sequence[int] | None = None,
        class_values: Sequence[str] | None = None,
        confidence: float | None = None,
        prefix: str | None = None,
        postfix: str | None = None,
        **options: Unpack[DetectionOptions],
    ) -> None:
        # A metric of all numbers checks the options, and has the names of the numbers.
        metric_of_all = DetectionMAP(**options)
        value_names = metric_of_all._grid().value_names  # noqa: SLF001 - of the same package
        iou_types = metric_of_all.iou_type
        if values is None:
            values = list(evaluation.names_of_values([*value_names, *_VALUES_AT_CONFIDENCE], iou_types))
        if class_values is None:
            class_values = list(evaluation.names_of_values(["map"], iou_types))
        metrics = _metric_by_name(_distinct("values", values), classes, class_values)

        # Only precision, recall and F1 take a `confidence`.
        names = evaluation.coco_names(value_names, iou_types)
        at_confidence = set()
        for metric in metrics.values():
            if evaluation.SingleValue.parsed(metric, names).takes_confidence:
                at_confidence.add(metric)
        if confidence is not None and not at_confidence:
            raise ValueError(
                "`confidence` must be None unless `values` have a precision, recall or F1, such as 'f1_50'; got"
                f" {confidence}."
            )

        # Each member has one number. The members share their images, and what is known of them.
        given: dict[str, Any] = {}
        collection_options = (
            ("values", repr(values)),
            ("classes", repr(classes)),
            ("class_values", repr(class_values)),
        )
        if isinstance(classes, Mapping) and options.get("class_names") is None:
            options["class_names"] = classes
        members: dict[str, Metric | MetricCollection] = {}
        for name, metric in metrics.items():
            member_confidence = confidence if metric in at_confidence else None
            members[name] = DetectionMAP(metric=metric, confidence=member_confidence, **options)
        for place, member in enumerate(members.values()):
            member._given = given  # noqa: SLF001 - of the same package
            member._notes_images = place == 0  # noqa: SLF001 - `update` calls the first alone, and `forward` calls all
            member._names_collection_options = tuple(metrics.values())  # noqa: SLF001
            member._collection_options = collection_options  # noqa: SLF001
        super().__init__(members, prefix=prefix, postfix=postfix, compute_groups=[list(members)])
        for name in members:  # the base class sorts by name
            self._modules[name] = self._modules.pop(name)

    @base.signature_of(DetectionMAP.update)
    def update(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Check and store images; see `DetectionMAP.update`."""
        super().update(*args, **kwargs)

    forward = base.signature_of(DetectionMAP.update)(MetricCollection.forward)

    def results(
        self, iou_type: _names.IouType | None = None, *, across_classes: bool = False, boxes: bool = False
    ) -> evaluation.DetectionResults:
        """Return all results in float64; see `DetectionMAP.results`."""
        return self._first_member().results(iou_type, across_classes=across_classes, boxes=boxes)

    def boxes_of(self, image: evaluation.ImageIds) -> evaluation.ImageDicts:
        """Return the detections and the ground truths of some images, for drawing; see `DetectionMAP.boxes_of`."""
        return self._first_member().boxes_of(image)

    @property
    def num_invalid(self) -> int:
        """Number of this process's detected boxes that are not finite or have a negative size; see `DetectionMAP`."""
        return self._first_member().num_invalid

    @property
    def num_dropped(self) -> int:
        """Number of this process's objects that were left out; see `DetectionMAP`."""
        return self._first_member().num_dropped

    def plot(self, *args: Any, **options: Any) -> Any:
        """Plot the numbers, or several results over time; see `torchmetrics.MetricCollection`. Needs Matplotlib."""
        require("A figure", "matplotlib")
        return super().plot(*args, **options)

    def _first_member(self) -> DetectionMAP:
        member, *_ = self._modules.values()
        assert isinstance(member, DetectionMAP)  # noqa: S101 - for the type checker; see __init__
        return member


def _distinct(argument: str, names: Any) -> list[str]:
    """Return the names as a list; raise unless they are distinct strings, at least one."""
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"`{argument}` must be a tuple or list of strings; got {names!r}.")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"`{argument}` must hold at least one name and none twice; got {names!r}.")
    return list(names)


def _metric_by_name(
    values: Sequence[str], classes: Mapping[int, str] | Sequence[int] | None, class_values: Sequence[str]
) -> dict[str, str]:
    """Return the `metric` of each member by its logged name, such as "map/7" by "map/dog"."""
    metrics = {name: name for name in values}
    if classes is None:
        return metrics
    # A label without a name is logged by its number.
    if not isinstance(classes, Mapping):
        _checks.integers("classes", classes)
        classes = {label: str(label) for label in classes}
    _checks.integers("classes", list(classes))
    class_names = list(classes.values())
    are_valid = all(isinstance(name, str) and "." not in name for name in class_names)
    if not are_valid or len(set(class_names)) < len(class_names):
        raise ValueError(f"`classes` must have distinct names without a dot; got {class_names!r}.")
    for value in _distinct("class_values", class_values):
        for label, name in classes.items():
            metrics[f"{value}/{name}"] = f"{value}/{label}"
    return metrics
