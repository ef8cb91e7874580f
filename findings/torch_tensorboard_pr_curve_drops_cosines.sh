#!/usr/bin/env bash
# torch 2.13.0: `SummaryWriter.add_pr_curve` leaves out scores below 0 and above 1, so that its recall is too high.
#
# One expects: the curve is that of all pairs, and its recall at the lowest threshold the share of positives above it, as
#     scikit-learn's `precision_recall_curve` has it for any scores.
# What happens: scores are counted in bins from 0 to 1, and a pair with a cosine below 0 or a score above 1 is in none: it
#     is no positive, no negative, neither found nor missed. Nothing says so.
# Why it matters: half of all pairs of unrelated embeddings have a cosine below 0. A model that finds half of the positives
#     is shown with a recall of 1.0. Map cosines to (1 + cosine) / 2, and distances to (0, 1], before they are logged.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet tensorboard==2.21.0 numpy==2.4.6 scikit-learn==1.9.1
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON' 2>/dev/null
import numpy as np
import torch
from sklearn.metrics import precision_recall_curve
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util
from torch.utils.tensorboard import SummaryWriter

print("torch", torch.__version__.partition("+")[0])
POSITIVE = np.arange(4000) < 2000
rng = np.random.default_rng(0)
cosines = np.where(POSITIVE, np.where(rng.random(4000) < 0.5, 0.9, -0.4), rng.uniform(-1, 0.3, 4000))


def curve_of(scores, name):
    """Return pairs that the curve counts, and its recall and precision at a threshold of 0."""
    with SummaryWriter(name) as writer:
        writer.add_pr_curve("pairs", POSITIVE, scores)
    reader = EventAccumulator(name)
    reader.Reload()
    (event,) = reader.Tensors("pairs")
    right, wrong, rejected, missed, precision, recall = tensor_util.make_ndarray(event.tensor_proto)[:, 0]
    return int(right + wrong + rejected + missed), float(recall), round(float(precision), 3)


precision, recall, thresholds = precision_recall_curve(POSITIVE, cosines)
place = np.searchsorted(thresholds, 0)
print(f"scikit-learn: recall {recall[place]:.3f}, precision {precision[place]:.3f} at 0")
as_cosines = curve_of(cosines, "cosines")
print(f"TensorBoard: recall {as_cosines[1]:.3f}, precision {as_cosines[2]:.3f} at 0, of {as_cosines[0]} of 4000 pairs")
as_fractions = curve_of((1 + cosines) / 2, "fractions")
print(f"TensorBoard, (1 + cosine) / 2: {as_fractions[0]} of 4000 pairs")

assert 0.47 < recall[place] < 0.53
assert as_cosines[0] < 1500 and as_cosines[1] == 1.0
assert as_fractions[0] == 4000
print("as described")
PYTHON
