#!/usr/bin/env bash
# scikit-learn 1.9.1: a query without a relevant item has 1.0 in label ranking average precision, and 0.0 in its others.
#
# One expects: three measures of rankings of one library treat a query without a relevant item alike: all leave it out, or
#     all count it as 0.
# What happens: `label_ranking_average_precision_score` counts it as 1.0, without a warning. `ndcg_score` counts it as 0.0,
#     and `average_precision_score` as 0.0, with a warning. Of ten random rankings two have a relevant item: their mean is
#     0.08, that of all ten 0.82 by the first function, and 0.02 by the third.
# Why it matters: after junk is removed some queries of re-identification have no match in another camera; of queries with
#     distractors alone there are many in open sets. The more such queries, the better the model seems. Equal
#     scores are no such case: with one relevant item they have 1 / items.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" - <<'PYTHON'
import warnings

import numpy as np
import sklearn
from sklearn.metrics import average_precision_score, label_ranking_average_precision_score, ndcg_score

print("scikit-learn", sklearn.__version__)
scores = np.random.default_rng(0).random((10, 20))
relevant = np.zeros((10, 20), int)
relevant[:2, 0] = 1


def average_precision(rows):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        value = np.mean([average_precision_score(*row) for row in zip(relevant[rows], scores[rows])])
    return value, len(given)


measured = {}
for name, rows in {"two queries with a relevant item": slice(2), "and eight without": slice(10)}.items():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranking = label_ranking_average_precision_score(relevant[rows], scores[rows])
        gain = ndcg_score(relevant[rows], scores[rows])
    precision, num_warnings = average_precision(rows)
    measured[rows.stop] = ranking, precision, gain
    print(f"{name}: label ranking AP {ranking:.3f}, AP {precision:.3f} ({num_warnings} warnings), nDCG {gain:.3f}")

ties = label_ranking_average_precision_score([[1, 0, 0, 0]], [[0.5] * 4])
print("four equal scores, one relevant item: label ranking AP", ties)
assert np.isclose(measured[2][0], measured[2][1])
assert np.isclose(measured[10][0], 0.2 * measured[2][0] + 0.8)
assert np.allclose(measured[10][1:], 0.2 * np.array(measured[2][1:]))
assert ties == 0.25
print("as described")
PYTHON
