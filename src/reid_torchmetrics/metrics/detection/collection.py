"""A collection of the numbers of detection, to be logged together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchmetrics import Metric, MetricCollection
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._extras import require
from reid_torchmetrics.functional.detection import advice, evaluation
from reid_torchmetrics.metrics import base

from .detection_map import DetectionMAP, DetectionOptions

_OF_POINTS = ("precision_50", "recall_50", "f1_50")
_OF_MEMBERS = {
    name: each for name, each in base.arguments_of(DetectionMAP).items() if name not in ("metric", "confidence")
}
"""the arguments of members that the collection takes, too; it names the numbers of members by others"""


class DetectionMetrics(MetricCollection):
    """COCO's numbers, and precision, recall and F1 of boxes, as a `MetricCollection`: `map`, `map_50`, ..., `f1_50`.

    All members are 0-d tensors, ready for `self.log_dict`, and share one set of images and one matching.

    Args:
        values: the numbers by name, see `metric` of `DetectionMAP`; None for all of COCO's and `precision_50`,
            `recall_50` and `f1_50`.
        classes: names of classes by label, or labels: numbers of these classes are added, as "map/dog" or "map/7".
        class_values: the numbers of each of them; None for the mean average precision.
        confidence: where precision, recall and F1 are taken; None for the confidence with the highest mean of F1.
        prefix: put before every name, for instance "val/".
        postfix: put behind every name.
        options: see `DetectionMAP`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value, a name that is given twice, or one with a dot.

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
        {name: each.annotation for name, each in _OF_MEMBERS.items()},
        {name: each.default for name, each in _OF_MEMBERS.items()},
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
        # A metric without a value of its own checks the options, and knows the names of all values.
        plain = DetectionMAP(**options)
        value_names, iou_types = plain._grid().value_names, plain.iou_type  # noqa: SLF001 - of the same room
        if values is None:
            values = [*evaluation.names_of_values([*value_names, *_OF_POINTS], iou_types)]
        if class_values is None:
            class_values = [*evaluation.names_of_values(["map"], iou_types)]
        chosen = {"values": values, "classes": classes, "class_values": class_values}
        metrics = _with_classes(_distinct("values", values), classes, class_values)
        names = evaluation.coco_names(value_names, iou_types)
        # Only values at one confidence take a `confidence`.
        points = {metric for metric in metrics.values() if evaluation.SingleValue.parsed(metric, names).is_point}
        if confidence is not None and not points:
            raise ValueError(
                "`confidence` must be None unless `values` have a precision, recall or F1, such as 'f1_50'; got"
                f" {confidence}."
            )
        # Each member is a metric of one number; all of them share one set of images.
        members: dict[str, Metric | MetricCollection] = {
            name: DetectionMAP(metric=metric, confidence=confidence if metric in points else None, **options)
            for name, metric in metrics.items()
        }
        # Members share the images, so there is advice once for all of them.
        notes = advice.BatchNotes()
        collected = tuple((name, repr(value)) for name, value in chosen.items())
        for member in members.values():
            member._notes = notes  # noqa: SLF001 - of the same room
            member._names_collection_options = tuple(metrics.values())  # noqa: SLF001
            member._collection_options = collected  # noqa: SLF001
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
        """All results in float64; see `DetectionMAP.results`."""
        return self._first_member().results(iou_type, across_classes=across_classes, boxes=boxes)

    def boxes_of(self, image: evaluation.Asked) -> evaluation.DictsOfSides:
        """The detections and the ground truths of some images, to be drawn; see `DetectionMAP.boxes_of`."""
        return self._first_member().boxes_of(image)

    @property
    def num_invalid(self) -> int:
        """Detected boxes of this process that are not finite or of negative size; see `DetectionMAP`."""
        return self._first_member().num_invalid

    @property
    def num_dropped(self) -> int:
        """Objects of this process that were left out; see `DetectionMAP`."""
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
    """The names; raise unless they are a sequence of distinct strings, at least one."""
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"`{argument}` must be a tuple or list of strings; got {names!r}.")
    if not names or len({*names}) < len(names):
        raise ValueError(f"`{argument}` must hold at least one name and none twice; got {names!r}.")
    return [*names]


def _with_classes(
    values: Sequence[str], classes: Mapping[int, str] | Sequence[int] | None, class_values: Sequence[str]
) -> dict[str, str]:
    """The `metric` of each member, by its logged name."""
    metrics = {name: name for name in values}
    if classes is None:
        return metrics
    # Labels without names are their own names.
    if not isinstance(classes, Mapping):
        _checks.integers("classes", classes)
        classes = {label: str(label) for label in classes}
    _checks.integers("classes", [*classes])
    shown = [*classes.values()]
    if len({*shown}) < len(shown) or any(not isinstance(each, str) or "." in each for each in shown):
        raise ValueError(f"`classes` must have distinct names without a dot; got {shown!r}.")
    # "map/dog" is logged, `metric="map/7"` computes it.
    pairs = [(value, label) for value in _distinct("class_values", class_values) for label in classes]
    return metrics | {f"{value}/{classes[label]}": f"{value}/{label}" for value, label in pairs}
