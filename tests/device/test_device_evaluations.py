"""Evaluations on a device: the values of the CPU under every protocol, and all that their results are asked for."""

import pytest
import torch

from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation import Labels
from reid_torchmetrics.functional.retrieval.scores import Rows
from reid_torchmetrics.tasks import QueryExpansion, compare, expand_queries, rerank_k_reciprocal
from reid_torchmetrics.tasks.pooled_queries import pool_queries
from tests.device.problems import assert_as_on_the_cpu, assert_same, moved, problem
from tests.functional.detection.detection_samples import images


def lists_of(name: str, *, where: str, kind: type = torch.tensor) -> list[dict]:
    """Three positives, one in each of the lists that a protocol knows, and one junk item; one query has no lists."""
    names = [*find_protocol(name).positive_lists, *find_protocol(name).junk_lists]
    rows = [{each: [query + 7 * place] for place, each in enumerate(names)} for query in range(9)]
    rows.append({names[0]: []})
    if kind is list:
        return rows
    return [{each: torch.tensor(row[each]).to(where) for each in row} for row in rows]


def test_lists_of_python_go_with_scores_on_the_device(device):
    query, gallery = problem()[:2]
    own = torch.tensor([0, 1, 2, 3, -1, -1, -1, -1, -1, -1])

    def results(where):
        options = {"ground_truth": lists_of("oxford5k", where=where, kind=list), "self_index": moved(own, where)}
        return evaluate_scores(moved(query @ gallery.T, where), protocol="oxford5k", **options)

    assert_as_on_the_cpu(device, results)


def test_distances_and_labels_as_floats_are_those_of_the_cpu(device):
    query, gallery, *labels = problem()
    distances = (query[:, None] - gallery).norm(dim=2)

    def results(where):
        numbers = moved([each.float() for each in labels], where)
        found = evaluate_scores(None, *numbers, distances=moved(distances, where))
        return [
            found.means,
            found.query_identities,
            vars(found.nearest(3)),
            evaluate_scores(-moved(distances, where), *numbers).identification(),
        ]

    assert_as_on_the_cpu(device, results)


def test_names_go_with_embeddings_on_the_device(device):
    query, gallery, *labels = problem()
    names = [[f"no. {number}" if number >= 0 else "-1" for number in side.tolist()] for side in labels]
    assert_as_on_the_cpu(device, lambda where: vars(evaluate(*moved([query, gallery], where), *names).nearest(3)))


def test_scores_that_seem_to_be_distances_are_told_on_the_device(device):
    identities = moved(torch.arange(20), device)
    with pytest.warns(UserWarning, match="^`scores` seem to be distances"):
        evaluate_scores(moved(1 - torch.eye(20) * (1 + torch.rand(20)), device), identities, identities)


def test_detectors_are_compared_wherever_their_results_are(device):
    preds, target = images(7, 5, num_levels=50)
    other = [item | {"boxes": item["boxes"] + 3} for item in preds]

    def results(where, found):
        return evaluate_images(*moved((found, target), where))

    a, b = results("cpu", preds), results("cpu", other)
    expected = compare(a, b, num_resamples=4, num_permutations=4).to_dict()
    for place in ("cpu", device):
        on_device = compare(
            results(device, preds), results(place, other), num_resamples=4, num_permutations=4
        ).to_dict()
        assert_same(on_device, expected, "cpu")


def test_results_of_the_cpu_are_compared_with_those_of_the_device(device):
    given = problem()
    results = [evaluate(*moved(given, where)) for where in ("cpu", device)]
    difference = compare(*results, generator=torch.Generator(), num_resamples=9, num_permutations=9).differences["map"]
    assert (difference.difference, difference.p_value) == (0, 1)


def test_embeddings_are_changed_there(device):
    query, gallery, identities, _, cameras, _ = problem()

    def changed(where):
        sides = moved(query, where), moved(gallery, where)
        kept = torch.arange(0, 60, 2).to(where)
        scores = rerank_k_reciprocal(*sides, k1=6, k2=3, kept=kept, max_bytes=10**5)
        expansion = QueryExpansion(k=3, expanded="gallery_first")
        labels = Labels({"identities": moved(identities, where), "cameras": moved(cameras, where)}, {})
        rows, labels = pool_queries(Rows([sides[0]]), labels, sides[1])
        return [scores.distances(), rows.all(), labels.query, expand_queries(*sides, k=3), *expansion.expand(*sides)]

    assert_as_on_the_cpu(device, changed)


def test_a_re_ranking_knows_a_query_by_its_place_in_the_gallery(device):
    gallery, own = problem()[1], torch.arange(0, 60, 6)

    def changed(where):
        query, own_there = moved(gallery[own], where), moved(own, where)
        return QueryExpansion(k=3).expand(query, moved(gallery, where), self_index=own_there)

    assert_as_on_the_cpu(device, changed)
