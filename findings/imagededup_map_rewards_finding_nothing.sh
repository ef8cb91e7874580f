#!/usr/bin/env bash
# imagededup 0.3.3.post2: the MAP of a search that returns nothing is 0.6, and of one that finds all duplicates first 0.4.
#
# One expects: a search without any result has a mean average precision of 0, and one that puts every duplicate at the
#     first place, whatever follows, has 1.0, as in trec_eval and scikit-learn.
# What happens: an image without duplicates for which nothing is returned counts as 1.0, one for which something is
#     returned as 0.0, and a duplicate that is not found at all as 0.0. So the share of images without duplicates is the
#     floor of the number. nDCG has the same floor, and ignores missing duplicates: one of two, found first, has 1.0.
# Why it matters: collections have few duplicates. Where 1 % of the images have one, returning nothing has 0.99, and a
#     threshold that is chosen by this MAP is the one that finds least.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet numpy==2.4.6 scikit-learn==1.9.1
"$folder/env/bin/pip" install --quiet --no-deps imagededup==0.3.3.post2 # its models, which want torchvision, are not used
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

from imagededup.handlers.metrics.information_retrieval import get_all_metrics

print("imagededup", version("imagededup"))
truth = {"a": ["b"], "b": ["a"], "c": [], "d": [], "e": []}
found = {
    "nothing": {image: [] for image in truth},
    "every duplicate first, others behind": {
        image: sorted(set(truth) - {image}, key=lambda other: (other not in truth[image], other)) for image in truth
    },
    "the duplicates and nothing else": truth,
}
numbers = {}
for name, results in found.items():
    numbers[name] = {metric: round(float(value), 3) for metric, value in get_all_metrics(truth, results).items()}
    print(f"{name}: {numbers[name]}")
three = {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]}
half = {metric: float(value) for metric, value in get_all_metrics(three, {"a": ["b"], "b": ["a"], "c": ["a"]}).items()}
print(f"one of two duplicates each: {half}")

values = [number["map"] for number in numbers.values()]
assert values == [0.6, 0.4, 1.0]
assert numbers["nothing"]["ndcg"] == 0.6 and half["ndcg"] == 1.0 and half["map"] == 0.5
print("as described")
PYTHON
