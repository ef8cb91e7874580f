#!/usr/bin/env bash
# TorchMetrics 1.9.0: after one epoch whose value is NaN, `MetricTracker.best_metric` is NaN, and the best step is that one.
#
# One expects: the best of NaN, 0.40 and 0.93 is 0.93, as with pandas' `max` or NumPy's `nanmax`; or an error.
# What happens: `torch.max` and `torch.min` return NaN and its place where there is one. `best_metric` returns NaN and the
#     step of the NaN for all later epochs, for metrics that are maximized and for those that are minimized.
# Why it matters: metrics are NaN where they are undefined, such as a correlation of constant predictions in the first
#     epoch, or a mean over no valid query. A script that loads the checkpoint of the best step loads that one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet torchmetrics==1.9.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import math

import numpy as np
import torch
import torchmetrics
from torchmetrics.regression import PearsonCorrCoef
from torchmetrics.wrappers import MetricTracker

print("torchmetrics", torchmetrics.__version__)
target = torch.arange(10.0)
noise = torch.randn(10, generator=torch.Generator().manual_seed(0))
epochs = [torch.zeros(10), target + 5 * noise, target + noise]  # constant predictions in the first epoch
best = {}
for maximize in (True, False):
    tracker = MetricTracker(PearsonCorrCoef(), maximize=maximize)
    for predictions in epochs:
        tracker.increment()
        tracker.update(predictions, target)
    values = tracker.compute_all()
    best[maximize] = tracker.best_metric(return_step=True)
    print(f"values {values.tolist()}, maximize={maximize}: best value and step {best[maximize]}")
print("NumPy's nanargmax:", np.nanargmax(values.numpy()))

assert all(math.isnan(value) and step == 0 for value, step in best.values())
assert np.nanargmax(values.numpy()) == 2
print("as described")
PYTHON
