#!/usr/bin/env bash
# pytrec_eval-terrier 0.5.11 (trec_eval 9): scores are rounded to float32, and items that become equal go by their names.
#
# One expects: the scores of a run are Python's floats, so that 0.99999999 is above 0.99999998.
# What happens: both are 1.0 in float32. Equal scores are ordered by the name of the item, the last of the alphabet first.
#     The relevant item "a" with the higher score is second, and its average precision is 0.5; renamed to "z" it is 1.0.
# Why it matters: cosines of near duplicates differ in the eighth digit, and scores such as times in seconds since 1970 or
#     sums of many terms have few digits behind the point. For 500 queries whose scores are 1e8 plus a rank, a third of
#     the mean average precision goes, without a message.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pytrec_eval-terrier==0.5.11 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import pytrec_eval

print("pytrec_eval-terrier", version("pytrec_eval-terrier"))


def mean_average_precision(truth, run):
    numbers = pytrec_eval.RelevanceEvaluator(truth, {"map"}).evaluate(run)
    return float(np.mean([number["map"] for number in numbers.values()]))


pair = {}
for better in ("a", "z"):
    run = {"q": {better: 0.99999999, "m": 0.99999998}}
    pair[better] = mean_average_precision({"q": {better: 1}}, run)
    print(f"{run['q']}, relevant: {better}: average precision {pair[better]}")

random = np.random.default_rng(0)
truth, near, far = {}, {}, {}
for query in range(500):
    items = [str(item) for item in random.permutation(100)]
    falling = range(100, 0, -1)
    truth[str(query)] = {item: 1 for item in items[:5]}
    near[str(query)] = {item: float(score) for item, score in zip(items, falling)}
    far[str(query)] = {item: 1e8 + score for item, score in zip(items, falling)}
numbers = mean_average_precision(truth, near), mean_average_precision(truth, far)
print(f"500 perfect queries: scores 1 to 100: {numbers[0]:.3f}; 1e8 + 1 to 1e8 + 100: {numbers[1]:.3f}")

assert pair == {"a": 0.5, "z": 1.0}
assert numbers[0] == 1.0 and numbers[1] < 0.9
print("as described")
PYTHON
