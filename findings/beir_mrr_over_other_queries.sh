#!/usr/bin/env bash
# BEIR 2.2.0: NDCG and MRR of one run are means over different queries.
#
# One expects: `EvaluateRetrieval.evaluate` and `evaluate_custom(..., metric="mrr")` of the same judgements and the same
#     run average over the same queries, so that NDCG@1 = 1 means MRR@1 = 1 where each query has one right document.
# What happens: NDCG, MAP, recall and precision are means over the queries of the run; MRR and accuracy are sums over
#     the run, divided by the number of all judged queries. Two judged queries, of which the run has one, with the right
#     document first: NDCG@1 1.0, MAP@1 1.0, P@1 1.0 beside MRR@1 0.5, Accuracy@1 0.5.
# Why it matters: engines return no list for a query without hits. Its failure lowers one number of a table and not the
#     others, and dropping hard queries from a run raises NDCG.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
# The evaluation needs neither the models nor the search that BEIR asks for.
"$folder/env/bin/pip" install --quiet numpy==2.4.6 scipy==1.17.1 tqdm==4.70.1
"$folder/env/bin/pip" install --quiet --no-deps beir==2.2.0 pytrec-eval-terrier==0.5.11
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

from beir.retrieval.evaluation import EvaluateRetrieval

print("beir", version("beir"), "pytrec-eval-terrier", version("pytrec-eval-terrier"))
judgements = {"q1": {"d1": 1}, "q2": {"d9": 1}}
runs = {
    "one of two queries": {"q1": {"d1": 2.0, "d2": 1.0}},
    "both, the second one wrong": {"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d8": 1.0}},
}
numbers = {}
for name, run in runs.items():
    parts = EvaluateRetrieval.evaluate(judgements, run, [1])
    custom = [EvaluateRetrieval.evaluate_custom(judgements, run, [1], metric=metric) for metric in ("mrr", "acc")]
    numbers[name] = {key: value for part in (*parts, *custom) for key, value in part.items()}
    print(f"{name}: {numbers[name]}")

first, second = numbers.values()
assert [first[name] for name in ("NDCG@1", "MAP@1", "Recall@1", "P@1")] == [1.0] * 4
assert [first[name] for name in ("MRR@1", "Accuracy@1")] == [0.5] * 2
assert set(second.values()) == {0.5}
print("as described")
PYTHON
