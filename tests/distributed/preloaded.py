"""What each process of the pool imports before its first function: forked processes have it from the first one."""

from tests import executed_shapes

executed_shapes.install()  # before the package

import pytest  # noqa: E402, F401

import reid_torchmetrics.functional.detection  # noqa: E402
import reid_torchmetrics.functional.retrieval  # noqa: E402
import reid_torchmetrics.metrics.detection  # noqa: E402
import reid_torchmetrics.metrics.reid  # noqa: E402, F401
