#!/usr/bin/env bash
# implicit 0.7.3: `precision_at_k` divides by the number of relevant items where that is below k, and pools users.
#
# One expects: precision at 10 is the share of relevant items among the first ten, averaged over users, as in trec_eval,
#     ranx, TorchMetrics and RecTools: 0.1 where each user has one relevant item and it comes first.
# What happens: it is 1.0. The hits of all users are added up and divided by the sum of min(10, relevant items) of all
#     users. A user with one relevant item, found, and a user with twenty, none of which is found, have 1 / (1 + 10)
#     together, although the means of the other measures weigh both alike.
# Why it matters: the number stands beside the precision of other libraries, and is up to k times as large where users have
#     few relevant items. Users with many relevant items weigh more in it, and in no other number of the same call.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet implicit==0.7.3 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" - <<'PYTHON' 2>/dev/null
from importlib.metadata import version

import numpy as np
from implicit.evaluation import ranking_metrics_at_k
from scipy.sparse import csr_matrix

print("implicit", version("implicit"))
ITEMS, K = 50, 10


class FirstItems:
    """Recommends items 0, 1, 2, ... to each user."""

    def recommend(self, userid, user_items, N, **options):
        return np.tile(np.arange(N, dtype=np.int32), (len(userid), 1)), np.ones((len(userid), N), np.float32)


def measured(relevant):
    """Return the numbers of implicit, and the mean of hits / k."""
    users = np.repeat(np.arange(len(relevant)), [len(items) for items in relevant])
    items = np.concatenate(relevant)
    truth = csr_matrix((np.ones(len(items)), (users, items)), shape=(len(relevant), ITEMS))
    nothing = csr_matrix(truth.shape)
    numbers = ranking_metrics_at_k(FirstItems(), nothing, truth, K=K, show_progress=False)
    by_definition = np.mean([np.isin(np.arange(K), items).sum() / K for items in relevant])
    return numbers["precision"], by_definition


one_each = measured([[0]] * 4)
few_and_many = measured([[0], list(range(20, 40))])
print(f"four users with one relevant item, found first: precision {one_each[0]:.3f}, hits / k {one_each[1]:.3f}")
print(f"one found of 1, none of 20: precision {few_and_many[0]:.3f}, mean of hits / k {few_and_many[1]:.3f}")

assert np.allclose(one_each, (1.0, 0.1))
assert np.allclose(few_and_many, (1 / 11, 0.05))
print("as described")
PYTHON
