"""Queries that are in the gallery: `self_index` leaves them out, and without it a warning says so."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from reid_torchmetrics import AdviceWarning
from reid_torchmetrics.functional.retrieval import evaluate
from tests.diagnosis.contract import warned_by
from tests.profiles import examples


def gallery(number: int = 60, dimension: int = 8, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(number, dimension, generator=generator), torch.arange(number) % 6


def said(*args, **options) -> list[str]:
    return warned_by(lambda: evaluate(*args, **options))


PART = torch.arange(0, 60, 3)


def test_most_queries_in_the_gallery_are_said_to_be_there():
    embeddings, identities = gallery()
    given = embeddings[PART], embeddings, identities[PART], identities
    with pytest.warns(UserWarning, match="^Most queries have a copy of themselves .* Pass `self_index`"):
        found = evaluate(*given, reports=("hit_rate_1",))
    assert found.means["hit_rate_1"] == 1  # what everybody sees, and nobody wants
    assert len(said(*given)) == 1  # and in each call


def test_items_that_a_rule_leaves_out_have_no_warning():
    embeddings, identities = gallery()
    cameras = torch.arange(60) % 5
    given = embeddings[PART], embeddings, identities[PART], identities
    assert said(*given, cameras[PART], cameras) == []  # junk: the query's identity and camera
    assert said(*given, junk_pairs=lambda q, g: PART[q][:, None] == g) == []
    assert len(said(*given, cameras[PART], cameras, same_camera="keep")) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_queries_of_every_dtype_and_layout_are_found(dtype):
    embeddings, identities = gallery()
    embeddings = embeddings.to(dtype).T.contiguous().T
    assert len(said(embeddings[PART], embeddings, identities[PART], identities)) == 1


@pytest.mark.parametrize(("number", "times"), [(9, 0), (12, 1)])
def test_most_of_the_queries_must_be_there(number, times):
    embeddings, identities = gallery()
    query = torch.randn(20, 8)
    query[:number] = embeddings[PART[:number]]
    assert len(said(query, embeddings, identities[PART], identities)) == times


def test_codes_that_are_equal_by_chance_are_no_copies():
    one_hot, few = torch.eye(8).repeat(3, 1), torch.randn(7, 8)
    for query, items in ((one_hot, one_hot[:12]), (torch.ones(24, 8), torch.ones(24, 8)), (few, few)):
        labels = torch.arange(len(query)) % 4, torch.arange(len(items)) % 4
        assert not any("copy of themselves" in text for text in said(query, items, *labels))


@examples(12)
@given(st.integers(0, 10**6))
@pytest.mark.slow
def test_nothing_is_said_of_queries_of_their_own(seed):
    generator = torch.Generator().manual_seed(seed)
    num_queries, num_gallery = torch.randint(1, 40, (2,), generator=generator).tolist()
    dimension = int(torch.randint(1, 12, (1,), generator=generator))
    labels = torch.randint(0, 5, (num_queries + num_gallery,), generator=generator)
    identities, own = labels[:num_queries], labels[num_queries:]
    assume(bool(torch.isin(identities, own).any()))  # else it is said that no query has a positive
    shape = (num_queries + num_gallery, dimension)
    normal = torch.randn(shape, generator=generator)
    kinds = {
        "normal": normal,
        "constant": torch.ones(shape),
        "constant up to rounding": 1 + 1e-6 * normal,
        "one for each identity": torch.randn(5, dimension, generator=generator)[labels],
        "one-hot": torch.nn.functional.one_hot(labels).float(),
        "codes": torch.randint(-1, 2, shape, generator=generator).float(),
        "copies": normal[torch.arange(len(labels)).where(torch.rand(len(labels), generator=generator) > 0.2, 0)],
    }
    for kind, rows in kinds.items():
        assert said(rows[:num_queries], rows[num_queries:], identities, own, similarity="dot") == [], kind


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gallery": None, "self_index": torch.arange(60)}, "`self_index` must come with `gallery`; got it without."),
        (
            {"self_index": torch.arange(60), "multi_query": True},
            "`multi_query` needs `query_identities` and a `gallery`, no labels but identities and cameras, and no",
        ),
        (
            {"self_index": torch.arange(60).roll(1)},
            "`self_index` must point at gallery items with the labels of the query",
        ),
    ],
)
def test_a_self_index_that_cannot_be_is_refused(options, message):
    embeddings, identities = gallery()
    labels = {"query_identities": identities}
    if "gallery" not in options:
        labels["gallery_identities"] = identities
    with pytest.raises(ValueError, match="^" + message.replace("(", r"\(")):
        evaluate(embeddings, **{"gallery": embeddings, **labels, **options})


def test_search_cameras_that_no_gallery_item_has_are_said():
    embeddings, identities = gallery()
    cameras = torch.arange(60) % 3
    given = torch.randn(5, 8), embeddings, identities[:5], identities, cameras[:5], cameras
    with pytest.warns(AdviceWarning, match=r"^`search_cameras` must hold cameras of the gallery; got \(9, 7\), .* NaN"):
        assert evaluate(*given, search_cameras=(9, 7)).average_precision.isnan().all()
    in_bytes = *given[:4], given[4].to(torch.uint8), given[5].to(torch.uint8)
    with pytest.warns(AdviceWarning, match=r"^`search_cameras` must hold cameras of the gallery; got \(258,\)"):
        evaluate(*in_bytes, search_cameras=(258,))
    for cameras_with_items in ((2, 9), ()):
        (text,) = said(*given, search_cameras=cameras_with_items)
        assert text.startswith("No query can be evaluated")
