"""Histology: the majority vote and the average precision of the first five, of each diagnosis."""

import pytest

from reid_torchmetrics.functional.retrieval import RetrievalResults, mean_by
from reid_torchmetrics.tasks import evaluate_lists
from tests.fields.comparisons import assert_equal
from tests.golden.field_cases import FieldCase, load_field


def evaluated(case: FieldCase) -> RetrievalResults:
    labels = {"query_identities": case.inputs["labels"], "gallery_identities": case.inputs["gallery_labels"]}
    options = {"k": case.options["k"], "normalizer": "k", "junk_identities": (), "reports": ("map",)}
    return evaluate_lists(case.lists("retrieved"), **labels, **options)


@pytest.mark.parametrize("case", load_field("histology"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    results, labels = evaluated(case), case.inputs["labels"]
    votes = results.nearest(case.options["k"]).knn_accuracy(vote="majority", only_full=True)
    by_class = {"majority": mean_by(votes, labels), "map_5": mean_by(results.per_query["map"].nan_to_num(), labels)}
    found = {("sish", name): each.mean for name, each in by_class.items()}
    assert_equal(case, found | {("sish", "classes"): by_class["majority"].labels[:, 0]}, {})
