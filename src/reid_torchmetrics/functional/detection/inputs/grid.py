"""COCO's grid: where precision and recall are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from reid_torchmetrics import _checks

AreaRange = tuple[float, float]

COCO_IOU_THRESHOLDS: tuple[float, ...] = tuple(np.linspace(0.5, 0.95, 10).tolist())
"""0.5 to 0.95 in steps of 0.05, in the float64 values of COCO: the ninth is 0.8999999999999999"""
COCO_MAX_DETECTIONS = (1, 10, 100)
COCO_AREA_RANGES: dict[str, AreaRange] = {
    "all": (0.0, 1e5**2),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e5**2),
}
"""least and largest area in square pixels, both inside: 32 x 32 pixels are small and medium"""
COCO_RECALL_THRESHOLDS: tuple[float, ...] = tuple(np.linspace(0.0, 1.0, 101).tolist())
"""0 to 1 in steps of 0.01, in the float64 values of COCO"""
_OFFICIAL_LIMIT = 100  # pycocotools' AP is that of at most 100 detections


@dataclass(frozen=True)
class CocoGrid:
    """Where precision and recall are looked at: thresholds T, recalls R, area ranges A, limits of detections M.

    Raises:
        TypeError: something of the wrong type.
        ValueError: nothing to look at, or a value that is not allowed.
    """

    iou_thresholds: Sequence[float] = COCO_IOU_THRESHOLDS
    recall_thresholds: Sequence[float] = COCO_RECALL_THRESHOLDS
    max_detections: Sequence[int] = COCO_MAX_DETECTIONS
    """detections per image and class, ascending"""
    area_ranges: Mapping[str, AreaRange] = field(default_factory=lambda: dict(COCO_AREA_RANGES))
    """the first one is that of the numbers without a name, `map` and `mar_100`"""

    def __post_init__(self) -> None:
        """Check the values."""
        _checks.matching_options(self.iou_thresholds, self.max_detections, self.area_ranges)
        _checks.recalls_of_rule("recall_thresholds", self.recall_thresholds, "coco", reads_recalls=True)
        object.__setattr__(self, "area_ranges", dict(self.area_ranges))  # the caller may go on to change it

    @property
    def value_names(self) -> list[str]:
        """Names of COCO's numbers, in the order of `ClassAverages.summary`."""
        names = [*self.area_ranges][1:]
        of_recall = [f"mar_{name}" for name in (*dict.fromkeys(self.max_detections), *names)]
        return ["map", "map_50", "map_75", *(f"map_{name}" for name in names), *of_recall]

    @cached_property
    def official_limit(self) -> int:
        """Which limit `map` is at: that of 100 detections as in pycocotools, where there is none the largest."""
        limits = list(self.max_detections)
        return limits.index(_OFFICIAL_LIMIT) if _OFFICIAL_LIMIT in limits else len(limits) - 1
