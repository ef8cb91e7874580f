"""Mistakes in the samples are found by the rows that say so, and right samples of every kind are not."""

from random import Random

import pytest
import torch

from reid_torchmetrics.diagnosis.retrieval.matches import position_reading_that_fits, spelling_that_fits
from reid_torchmetrics.diagnosis.retrieval.sample_causes import SAMPLE_CAUSES
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from tests.diagnosis.retrieval.right_samples import RIGHT
from tests.diagnosis.retrieval.test_sample import case_of
from tests.diagnosis.retrieval.wrong_samples import WRONG, images
from tests.profiles import each_row, of_each

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = {row.name: row for row in SAMPLE_CAUSES}


def found(results) -> dict[str, str]:
    """Messages of the rows that find something in the results, by their names."""
    case = case_of(results)
    texts = {}
    for name, row in ROWS.items():
        is_tried = row.suspect is None or row.suspect(case)
        values = row.find(case) if is_tried else None
        if values is not None:
            texts[name] = row.text(values)
    return texts


@each_row("cause", sorted(ROWS.keys() & WRONG.keys()))
def test_each_mistake_is_found_by_its_row_alone(cause):
    for mistake, draw in WRONG[cause].items():
        query, gallery, given = draw()
        for similarity in of_each(("cosine", "euclidean", "dot"), suite=3):
            assert list(found(evaluate(query, gallery, **given, similarity=similarity))) == [cause], mistake


@each_row("kind", RIGHT)
def test_nothing_is_found_in_right_samples(kind):
    for seed in of_each(range(50), suite=2):
        torch.manual_seed(seed)
        query, gallery, given = RIGHT[kind](Random(seed))  # noqa: S311 - no secret
        similarity = ("cosine", "euclidean", "dot")[seed % 3]
        assert found(evaluate(query, gallery, **given, similarity=similarity)) == {}, seed
        distances = torch.cdist(query.float(), gallery.float())
        assert found(evaluate_scores(None, **given, distances=distances)) == {}, seed


def test_positives_behind_items_of_another_identity_are_no_copies():
    # One embedding for each identity: 30 long ones with one item each, and 20 short ones with two, which the long ones
    # precede by "dot".
    embedding = torch.nn.functional.normalize(torch.randn(50, 8, generator=torch.Generator().manual_seed(0)))
    embedding[:30] *= 10
    identities = torch.arange(50)
    gallery = torch.cat([identities, identities[30:]])
    for similarity in ("dot", "cosine", "euclidean"):
        assert found(evaluate(embedding, embedding[gallery], identities, gallery, similarity=similarity)) == {}


def test_an_item_that_equals_several_queries_is_the_copy_of_one():
    generator = torch.Generator().manual_seed(0)
    of_identity, others = torch.randn(2, 10, 8, generator=generator)
    identities = torch.arange(10)
    query, gallery = of_identity.repeat(3, 1), torch.cat([of_identity, others])
    assert found(evaluate(query, gallery, identities.repeat(3), identities.repeat(2))) == {}
    assert list(found(evaluate(of_identity, gallery, identities, identities.repeat(2)))) == ["copied_queries"]


@pytest.mark.parametrize("rounding", [torch.float32, torch.float16, torch.bfloat16])
def test_copies_are_found_in_matrices_that_are_symmetric_but_for_rounding(rounding):
    embeddings, identities = images()
    order, part = torch.randperm(160, generator=torch.Generator().manual_seed(3)), torch.arange(0, 160, 2)
    cosines = torch.nn.functional.normalize(embeddings) @ torch.nn.functional.normalize(embeddings).T
    matrices = [{"scores": cosines}, {"scores": embeddings @ embeddings.T}]
    matrices.append({"distances": torch.cdist(embeddings, embeddings)})
    for matrix in matrices:
        ((name, values),) = matrix.items()
        values = values.to(rounding).float()[part][:, order]
        given = {"scores": None, name: values}
        assert list(
            found(evaluate_scores(**given, query_identities=identities[part], gallery_identities=identities[order]))
        ) == ["copied_queries"]


def test_rows_that_are_scaled_to_their_best_score_are_no_copies():
    scores = torch.randn(60, 90).exp()
    identities = torch.arange(90) % 10
    scores += 9 * (identities[:60, None] == identities)
    scaled = scores / scores.amax(1, keepdim=True)
    assert found(evaluate_scores(scaled, identities[:60], identities)) == {}


@pytest.mark.parametrize(
    ("queries", "gallery", "words"),
    [
        (["00012", "00007"], ["12", "7", "3"], "as numbers, such as '00012' and '12'"),
        (["Anna ", "Bo"], ["anna", "bo"], "regardless of case and of spaces around them, such as 'Anna ' and 'anna'"),
        (["id_12", "id_7"], ["12", "7"], "by their numbers alone, such as 'id_12' and '12'"),
        (["a1", "b1", "c1"], ["1", "2"], None),  # all would be one
        (["a", "b"], ["c", "d"], None),
        (["a", "b", "c"], ["A", "d"], None),  # few
    ],
)
def test_spellings_fit_if_most_names_of_queries_become_names_of_the_gallery(queries, gallery, words):
    assert spelling_that_fits(queries, gallery) == words


def test_positions_fit_no_other_reading_if_they_lie_elsewhere():
    query = torch.rand(50, 2, dtype=torch.float64) * 1000 + torch.tensor([4e5, 5.3e6])
    assert position_reading_that_fits(query, query + torch.tensor([9000.0, 0]), 25.0) is None
    assert position_reading_that_fits(query[:0], query, 25.0) is None
    assert position_reading_that_fits(query, query.flip(1), 25.0) == "have their axes in another order on one side"
