#!/usr/bin/env bash
# scikit-learn 1.9.1: of the labels 1 and 2, AUROC takes 2 as positive and average precision 1.
#
# One expects: `roc_auc_score(labels, scores)` and `average_precision_score(labels, scores)` speak of the same positives,
#     or refuse labels that do not say which they are, as `roc_curve` and `precision_recall_curve` do.
# What happens: AUROC takes the larger label as positive, average precision the label 1, if there is one. Scores that
#     separate 2 (same) from 1 (different) perfectly have AUROC 1.0 and average precision 0.525, without a word.
# Why it matters: the two are reported beside one another for pairs, anomalies and open sets, and labels that come from
#     MATLAB or from codes of classes begin at 1. Where most pairs are negatives the wrong number looks
#     plausible: 5 pairs above 95 give 0.847.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import sklearn
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

print("scikit-learn", sklearn.__version__)
numbers = {}
for same, different in ((2, 4), (5, 95)):
    labels = np.repeat([2, 1], [same, different])
    scores = np.linspace(1, 0, same + different)
    values = (
        roc_auc_score(labels, scores),
        average_precision_score(labels, scores),
        average_precision_score(labels, scores, pos_label=2),
    )
    numbers[same, different] = [round(float(value), 3) for value in values]
    print(f"{same} pairs of label 2 above {different} of label 1: AUROC, AP, AP of label 2:", numbers[same, different])
refused = 0
for curve in (roc_curve, precision_recall_curve):
    try:
        curve(labels, scores)
    except ValueError as error:
        refused += 1
        print(f"{curve.__name__}: {error}")

assert numbers[2, 4] == [1.0, 0.525, 1.0]
assert numbers[5, 95] == [1.0, 0.847, 1.0]
assert refused == 2
print("as described")
PYTHON
