"""Mistakes in the samples are found by the rows that say so, and right samples of every kind are not."""

from functools import partial
from random import Random

import pytest
import torch

from reid_torchmetrics.diagnosis.retrieval import RETRIEVAL_CAUSES, label_rows
from reid_torchmetrics.diagnosis.spellings import spelling_that_fits
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from tests.diagnosis.at_doors.doors import OF_SAMPLES
from tests.diagnosis.contract import told_by
from tests.diagnosis.retrieval.right_samples import RIGHT
from tests.diagnosis.retrieval.test_sample import case_of
from tests.diagnosis.retrieval.wrong_samples import WRONG, images
from tests.profiles import each_row, of_each

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = ("copied_queries", "unlike_labels", "no_negatives", "repeated_samples", "zero_embeddings")
ROWS = {name: RETRIEVAL_CAUSES[name] for name in NAMES}


def found(results) -> dict[str, str]:
    """Messages of the rows that find something in the results, by their names."""
    case = case_of(results)
    texts = {}
    for name, row in ROWS.items():
        is_tried = row.suspect is None or row.suspect(case)
        values = row.find(case) if is_tried else None
        if values is not None:
            texts[name] = row.message.format(**values)
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


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("zeros in front", "would match as numbers, such as '00000' and '0'"),
        ("case", "would match regardless of case"),
        ("axes", "have their axes in another order on one side"),
        ("frames", "begin at 7,999 in the queries and at 0 in the gallery"),
        ("degrees", "are degrees, or have another origin, on the side of the queries"),
    ],
)
def test_a_reading_in_which_labels_match_is_named(mistake, words):
    query, gallery, given = WRONG["unlike_labels"][mistake]()
    for door, call in OF_SAMPLES.items():
        if not door.startswith("command"):
            (text,) = told_by(partial(call, {"query": query, "gallery": gallery, **given}))
            # A counter keeps the names of its queries alone.
            assert words in text or (door == "evaluate_stream" and "match" in words), door


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
        (["a", "b", "c", "e", "f"], ["A", "d"], None),  # few
    ],
)
def test_spellings_fit_if_most_names_of_queries_become_names_of_the_gallery(queries, gallery, words):
    found_words, num_common = spelling_that_fits(queries, gallery) or (None, 0)
    assert (found_words, num_common) == (words, len(queries) if words else 0)


def test_spellings_in_which_different_things_are_the_same_do_not_fit_if_others_match():
    assert spelling_that_fits(["market_12"], ["duke_12"])[0].startswith("by their numbers alone")
    assert spelling_that_fits(["market_12"], ["duke_12"], is_close=True) is None
    assert spelling_that_fits(["00012"], ["12"], is_close=True)[0] == "as numbers, such as '00012' and '12'"


def places_of(query, gallery):
    """What is found for queries and gallery items at some places."""
    embeddings = torch.randn(len(query) + len(gallery), 8, generator=torch.Generator().manual_seed(0))
    given = {"query_positions": query, "gallery_positions": gallery, "protocol": "pitts30k", "radius": 25.0}
    return found(evaluate(embeddings[: len(query)], embeddings[len(query) :], **given))


def test_positions_fit_no_other_reading_if_they_lie_elsewhere():
    query = torch.rand(50, 2, dtype=torch.float64) * 1000 + torch.tensor([4e5, 5.3e6])
    assert places_of(query, query + torch.tensor([9000.0, 0])) == {}
    assert "another order" in places_of(query, query.flip(1))["unlike_labels"]


def test_axes_are_not_exchanged_if_few_queries_have_an_item_near_by_chance():
    # Of 12 places on a small plan 4 have an item near them, and with exchanged axes 8.
    query = torch.arange(12, dtype=torch.float64)[:, None] * 100 + torch.tensor([0.0, 50.0])
    gallery = torch.cat([query[:4], query[4:].flip(1), query.flip(1)[:4] + 900])
    far = torch.cat([query, query[4:] + torch.tensor([0.0, 5000.0])])
    assert places_of(far[:12], gallery) == {}


def test_a_share_of_many_queries_counts_for_those_that_were_looked_at(monkeypatch):
    numbers = []
    monkeypatch.setattr(label_rows, "is_beyond_chance", lambda right, number, chance: numbers.append(number))
    query = torch.rand(6000, 2, dtype=torch.float64) * 1000 + torch.tensor([4e5, 5.3e6])
    assert places_of(query, query.flip(1)[::2]) == {}
    assert 0 < numbers[0] <= 256
