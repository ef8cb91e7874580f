"""What each process of the pool imports before its first function: forked processes have it from the first one."""

from tests import executed_shapes, profiles

if profiles.calls_with_shapes("distributed"):
    executed_shapes.install()  # before the package

import pytest  # noqa: F401

import reid_torchmetrics.functional.detection
import reid_torchmetrics.functional.retrieval
import reid_torchmetrics.metrics.detection
import reid_torchmetrics.metrics.reid  # noqa: F401
