#!/usr/bin/env bash
# TrackEval 1.3.0: the localization accuracy LocA rises as boxes get worse, up to 1.0 for boxes that match nothing.
#
# One expects: LocA is the mean overlap of matched boxes, so it falls with the overlap.
# What happens: LocA is a mean over 19 thresholds of overlap, and a threshold at which nothing matches counts as 1. One
#     track of one object whose boxes all overlap by 0.9, 0.5, 0.35, 0.15, 0.04 has the LocA 0.905, 0.737, 0.761,
#     0.866, 1.0, while HOTA falls as one expects.
# Why it matters: tables of trackers print LocA beside HOTA as the quality of boxes. A higher value may be a worse one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet trackeval==1.3.0 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from trackeval.metrics import HOTA

print("trackeval", version("trackeval"))
FRAMES = 10
numbers = {}
for overlap in (1.0, 0.9, 0.5, 0.35, 0.15, 0.04):
    track = {
        "num_timesteps": FRAMES,
        "num_gt_dets": FRAMES,
        "num_tracker_dets": FRAMES,
        "num_gt_ids": 1,
        "num_tracker_ids": 1,
        "gt_ids": [np.array([0])] * FRAMES,
        "tracker_ids": [np.array([0])] * FRAMES,
        "similarity_scores": [np.array([[overlap]])] * FRAMES,
    }
    result = HOTA().eval_sequence(track)
    numbers[overlap] = round(float(np.mean(result["LocA"])), 3)
    print(f"all boxes overlap by {overlap}: HOTA {np.mean(result['HOTA']):.3f}, LocA {numbers[overlap]:.3f}")

assert numbers == {1.0: 1.0, 0.9: 0.905, 0.5: 0.737, 0.35: 0.761, 0.15: 0.866, 0.04: 1.0}, numbers
print("as described")
PYTHON
