#!/usr/bin/env bash
# pytorch-metric-learning 2.9.0: labels are compared in float32, so that random embeddings of large labels are perfect.
#
# One expects: labels are int64, and 1,000,000,000,000 and 1,000,000,000,001 are two identities.
# What happens: `AccuracyCalculator` turns labels into float32, which tells whole numbers apart up to 16,777,216. Labels
#     beside each other become one identity: at 1e9 those of a range of 64, at 1e12 those of a range of 65,536.
# Why it matters: identities that are keys of a database, hashes, or a camera times a large number plus a track are that
#     large. For random embeddings of 50 identities the mean average precision is 0.04 with labels from 0, 0.56 with labels
#     from 1e9, and 1.0 with labels from 1e12. Labels that are counted from 0 first are compared exactly.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet pytorch-metric-learning==2.9.0 numpy==2.4.6 scikit-learn==1.9.1 tqdm==4.70.1
"$folder/env/bin/python" - <<'PYTHON'
import pytorch_metric_learning
import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN

print("pytorch-metric-learning", pytorch_metric_learning.__version__)
measures = ("mean_average_precision", "precision_at_1")
calculator = AccuracyCalculator(
    include=measures, knn_func=CustomKNN(CosineSimilarity()), device=torch.device("cpu")
)
embeddings = torch.randn(200, 16, generator=torch.Generator().manual_seed(0))
labels = torch.arange(200) // 4
numbers = {}
for first in (0, 16_777_216, 1_000_000_000, 1_000_000_000_000):
    shifted = labels + first
    numbers[first] = calculator.get_accuracy(embeddings, shifted)["mean_average_precision"]
    exact, single = len(shifted.unique()), len(shifted.float().unique())
    print(f"labels from {first:,}: {exact} identities, {single} in float32, mAP {numbers[first]:.3f}")

assert numbers[0] < 0.1 < numbers[1_000_000_000] < 0.9
assert numbers[0] < numbers[16_777_216]
assert numbers[1_000_000_000_000] == 1.0
print("as described")
PYTHON
