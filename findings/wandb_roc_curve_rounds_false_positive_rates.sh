#!/usr/bin/env bash
# wandb 0.31.0: `wandb.plot.roc_curve` rounds rates to three digits, so that a curve has nothing between 0 and 0.001.
#
# One expects: a chart has the points of the ROC curve, at least of its part that one looks at on a logarithmic axis.
# What happens: false and true positive rates are rounded to three digits before they are logged. All points with a
#     false positive rate below 0.0005 are at 0, the next ones at 0.001. The curve seems to begin, without any false
#     positive, as high as it is at a false positive rate of 0.0005.
# Why it matters: verification of faces, speakers and persons is reported at rates of 1e-3, 1e-4 and below. Of 205,000
#     pairs the true positive rate is 23.4 % at 0 and 58.1 % at 1e-4, and 75.9 % in the chart at both. Nothing tells of
#     it. Log a curve with one's own values, or the figure of a plotting library.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet wandb==0.31.0 scikit-learn==1.8.0 pandas==3.0.3 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import wandb
from sklearn.metrics import roc_curve

print("wandb", wandb.__version__)
rng = np.random.default_rng(0)
same = np.repeat([1, 0], [5_000, 200_000])
scores = np.concatenate([rng.normal(4, 1, 5_000), rng.normal(0, 1, 200_000)])  # of pairs of one identity, and of two

false_positive_rate, true_positive_rate, _ = roc_curve(same, scores)
exact = {rate: true_positive_rate[false_positive_rate <= rate].max() for rate in (0, 1e-4, 5e-4, 1e-3)}

chart = wandb.plot.roc_curve(same, np.stack([-scores, scores], axis=1), classes_to_plot=[1])
columns = chart.table.columns
rows = np.array([[row[columns.index("fpr")], row[columns.index("tpr")]] for row in chart.table.data], dtype=float)
logged = {rate: rows[rows[:, 0] <= rate, 1].max() for rate in exact}
between = int(((rows[:, 0] > 0) & (rows[:, 0] < 1e-3)).sum())

for rate in exact:
    print(f"true positive rate at {rate:g}: {exact[rate]:.1%} of the pairs, {logged[rate]:.1%} of the chart")
num_points = int(((false_positive_rate > 0) & (false_positive_rate < 1e-3)).sum())
print(f"points between 0 and 0.001: {num_points} of the curve, {between} of the chart")

assert between == 0 and num_points > 100
assert round(exact[0], 3) == 0.234 and round(exact[1e-4], 3) == 0.581
assert round(logged[0], 3) == round(logged[1e-4], 3) == round(exact[5e-4], 3) == 0.759
print("as described")
PYTHON
