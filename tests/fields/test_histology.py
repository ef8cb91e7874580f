"""Histology: the majority vote and the average precision of the first five, of each diagnosis."""

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate_scores, mean_by
from tests.fields.comparisons import assert_equal
from tests.golden.field_cases import FieldCase, load_field


def evaluated(case: FieldCase) -> RetrievalResults:
    """The lists as scores: what a list does not hold is dropped for its query."""
    labels, gallery_labels, lists = case.inputs["labels"], case.inputs["gallery_labels"], case.lists("retrieved")
    scores = np.full((len(labels), len(gallery_labels)), -1.0)
    for row, retrieved in zip(scores, lists, strict=True):
        row[retrieved] = np.arange(len(retrieved), 0, -1)
    is_listed = torch.from_numpy(scores >= 0)
    options = {"k": case.options["k"], "normalizer": "k", "junk_identities": (), "reports": ("map",)}
    return evaluate_scores(
        scores, labels, gallery_labels, junk_pairs=lambda rows, columns: ~is_listed[rows][:, columns], **options
    )


@pytest.mark.parametrize("case", load_field("histology"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    results, labels = evaluated(case), case.inputs["labels"]
    votes = results.nearest(case.options["k"]).knn_accuracy(vote="majority", only_full=True)
    by_class = {"majority": mean_by(votes, labels), "map_5": mean_by(results.values["map"].nan_to_num(), labels)}
    found = {("sish", name): each.mean for name, each in by_class.items()}
    assert_equal(case, found | {("sish", "classes"): by_class["majority"].labels[:, 0]}, {})
