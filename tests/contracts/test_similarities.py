"""The contract of a similarity: what every row of `SIMILARITIES` must satisfy, and rows that do not."""

import inspect
from functools import partial
from pathlib import Path
from typing import final, get_args
from unittest import mock

import pytest
import torch
from torch import Tensor

import reid_torchmetrics
from reid_torchmetrics import ReIDMetrics, _names, evaluate
from reid_torchmetrics.functional import retrieval
from reid_torchmetrics.functional.retrieval import find_relevance, rank_positives
from reid_torchmetrics.functional.retrieval.scores import (
    SIMILARITIES,
    EmbeddingScores,
    Rows,
    read_with_marks,
    score_embeddings,
)
from reid_torchmetrics.functional.retrieval.scores.products import product
from reid_torchmetrics.functional.retrieval.scores.similarity import Similarity
from reid_torchmetrics.tasks import RankCounter, evaluate_stream
from reid_torchmetrics.tasks.vector_indexes.exact_search import PAIR_SIMILARITIES, PairScores, PairSimilarity
from tests.contracts.missing import assert_nothing_missing
from tests.profiles import each_row
from tests.reference import retrieval as reference

DOCS = (Path(__file__).parents[2] / "docs" / "conventions.md").read_text(encoding="utf-8")
NUM_QUERIES, NUM_GALLERY, DIMENSION = 7, 53, 12
IDENTITIES = torch.arange(NUM_QUERIES) % 3, torch.arange(NUM_GALLERY) % 4
TILES = (NUM_GALLERY, 10, 1)
"""gallery items that are scored at a time"""
OF_SOME = {"person_search": "it multiplies normalized embeddings, by cosine or dot"}
"""functions that take some similarities alone, with the reason"""
CLOSE = {torch.float32: 1e-3, torch.float64: 1e-7}
"""of the largest score; the distance of equal embeddings is the square root of what rounding leaves"""


def embeddings_of(kind: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Queries and gallery items, some of which are equal: codes, whole numbers, near duplicates or any numbers."""
    generator = torch.Generator().manual_seed(3)
    values = torch.randn((NUM_QUERIES + NUM_GALLERY, DIMENSION), generator=generator, dtype=torch.float64)
    if kind == "codes":
        values = torch.where(values > 0, 1.0, -1.0)
    if kind == "whole numbers":
        values = (2 * values).round()
        values[:, 0] += 20  # all lie far from the origin, and none is a zero vector
    if kind == "near duplicates":
        values = 1 + 1e-6 * values
        values[0] = 0  # far from all others
    values[-9:] = values[:9]
    return values[:NUM_QUERIES].to(dtype), values[NUM_QUERIES:].to(dtype)


def kinds_of(name: str) -> list[str]:
    """The kinds of embeddings that a similarity takes: codes alone, or any."""
    takes_any = True
    try:
        read_with_marks("query", embeddings_of("any numbers", torch.float32)[0], name)
    except ValueError:
        takes_any = False
    return ["codes", "whole numbers", "any numbers"] if takes_any else ["codes"]


def check_similarity(name: str, kind: type[Similarity]) -> None:
    """Raise an AssertionError unless a row keeps the contract of a similarity; its message says what to add."""
    reference_words = "has no slow reference: add its scores to `SIMILARITIES` in tests/reference/retrieval.py"
    found = {
        reference_words: name in reference.SIMILARITIES,
        "is no `SimilarityName`: add it in _names.py": name in get_args(_names.SimilarityName),
    }
    assert_nothing_missing(name, found | found_on_pages(name))
    check_class(name, kind)
    with mock.patch.dict(SIMILARITIES, {name: kind}):
        for kind_of_embeddings in kinds_of(name):
            for dtype in CLOSE:
                check_scores(name, *embeddings_of(kind_of_embeddings, dtype))
            check_leave_one_out(name, embeddings_of(kind_of_embeddings, torch.float64)[1])
        if "any numbers" in kinds_of(name):
            check_pairs(name, *embeddings_of("near duplicates", torch.float32))
        check_entry_points(name, *embeddings_of("codes", torch.float32))


def found_on_pages(name: str) -> dict[str, bool]:
    """Whether the table of options and the docstrings that list similarities have it."""
    (row,) = [line for line in DOCS.splitlines() if line.startswith("| similarity |")]
    found = {"is not in the row of `similarity` in docs/conventions.md: add it": f'`"{name}"`' in row}
    for where, text in docstrings().items():
        found[f"is not in the docstring of {where}: add it"] = '"cosine"' not in text or f'"{name}"' in text
    return found


def docstrings() -> dict[str, str]:
    """The docstrings of all public functions and classes that explain an argument `similarity`, by name."""
    texts = {}
    for room in (reid_torchmetrics, retrieval):
        for name in room.__all__:
            text = inspect.getdoc(getattr(room, name)) or ""
            if "similarity: " in text and name not in OF_SOME:
                texts[name] = text
    return texts


def check_class(name: str, kind: type[Similarity]) -> None:
    """A similarity is a final class."""
    is_final = getattr(kind, "__final__", False)
    assert issubclass(kind, Similarity), f"{name!r} must be a subclass of `Similarity`; got {kind}"
    assert is_final, f"the class of {name!r} must be final: decorate it with `typing.final`"


def check_scores(name: str, query: Tensor, gallery: Tensor) -> None:
    """Comparable scores and ranks are those of the slow reference, in tiles of any size."""
    expected = torch.from_numpy(reference.similarity(query.double().numpy(), gallery.double().numpy(), name))
    ranks = reference.evaluate(expected.numpy().round(9), *(labels.tolist() for labels in IDENTITIES)).ranks
    scores = score_embeddings(query, gallery, find_relevance(*IDENTITIES), similarity=name)
    where = f"of {name!r} with {query.dtype}"
    whole = tiled(scores, NUM_GALLERY)
    for size in TILES:
        assert torch.equal(tiled(scores, size), whole), (
            f"scores {where} depend on the tiles, here of {size} items: write by `product`, one item like another"
        )
    comparable = whole.clone()
    scores.to_comparable(comparable, slice(0, len(query)))
    tolerance = CLOSE[query.dtype] * float(expected.abs().max())
    assert torch.allclose(comparable.double(), expected, rtol=0, atol=tolerance), (
        f"comparable scores {where} differ from `SIMILARITIES[{name!r}]` in tests/reference/retrieval.py: mend `score`,"
        " or `to_comparable`, of its class"
    )
    check_pairs(name, query, gallery)
    if query.dtype == torch.float64:
        found = rank_positives(query, gallery, *IDENTITIES, similarity=name).rank
        assert found.tolist() == sum(ranks, []), f"`score` {where} does not order a gallery as its reference does"


def check_pairs(name: str, query: Tensor, gallery: Tensor) -> None:
    """Scores of pairs order the gallery as the reference does, and no rounded score is below its floor."""
    if name not in PAIR_SIMILARITIES:  # scores in float64 are those of pairs
        query, gallery = query.double(), gallery.double()
    expected = torch.from_numpy(reference.similarity(query.double().numpy(), gallery.double().numpy(), name))
    scores = score_embeddings(query, gallery, find_relevance(*IDENTITIES), similarity=name)
    of_pairs = PairScores(scores, Rows([query]), Rows([gallery]), name)
    pairs = torch.cartesian_prod(torch.arange(NUM_QUERIES), torch.arange(NUM_GALLERY))
    whole = scores.all()
    exact = of_pairs.at(*pairs.T, whole.flatten()).view(NUM_QUERIES, NUM_GALLERY)
    is_above = expected[:, :, None] > expected[:, None] + 1e-9
    assert bool((exact[:, :, None] > exact[:, None])[is_above].all()), (
        f"`PAIR_SIMILARITIES[{name!r}]` does not order a gallery as its reference does"
    )
    for item in range(NUM_GALLERY):
        floor = of_pairs.floor(slice(0, NUM_QUERIES), slice(0, NUM_GALLERY), exact[:, item])
        is_below = (exact > exact[:, item, None]) & (whole <= floor[:, None])
        assert not bool(is_below.any()), (
            f"`floor` of {name!r} with {scores.dtype} is above a score: subtract what rounding may add"
        )


def check_leave_one_out(name: str, items: Tensor) -> None:
    """Ranks of the items of one set among the others are those of the slow reference, whoever shares products."""
    identities = torch.arange(len(items)) % 4
    expected = reference.similarity(items.double().numpy(), items.double().numpy(), name).round(9)
    places = torch.arange(len(items))
    ranks = reference.evaluate(expected, identities.tolist(), identities.tolist(), self_index=places.tolist()).ranks
    found = rank_positives(items, items, identities, identities, self_index=places, similarity=name)
    assert found.rank.tolist() == sum(ranks, []), f"leave-one-out by {name!r} differs from its reference"


def tiled(scores: EmbeddingScores, size: int) -> Tensor:
    """All scores, of some gallery items at a time."""
    out = torch.empty((scores.num_queries, scores.num_gallery), dtype=scores.dtype)
    for start in range(0, scores.num_gallery, size):
        columns = slice(start, min(start + size, scores.num_gallery))
        scores.fill(out[:, columns], slice(0, scores.num_queries), columns)
    return out


def check_entry_points(name: str, query: Tensor, gallery: Tensor) -> None:
    """One call, metrics and streams take the name, and give the same numbers."""
    expected = evaluate(query, gallery, *IDENTITIES, similarity=name).means
    metrics = ReIDMetrics(similarity=name)
    metrics.update(query, IDENTITIES[0], is_query=True)
    metrics.update(gallery, IDENTITIES[1], is_query=False)
    assert metrics.results().means == expected, f"metrics give other numbers with {name!r} than `evaluate`"
    related = IDENTITIES[1] < 3
    counter = RankCounter(query, gallery[related], IDENTITIES[0], IDENTITIES[1][related], similarity=name)
    counts = counter.count(gallery[~related], IDENTITIES[1][~related], key=0)
    streamed = evaluate_stream(counter, counts).means
    assert streamed == expected, f"a stream gives other numbers with {name!r} than `evaluate`"


@each_row("name", SIMILARITIES)
def test_a_similarity_keeps_its_contract(name):
    check_similarity(name, SIMILARITIES[name])


def test_every_reference_is_of_a_row():
    assert reference.SIMILARITIES.keys() <= SIMILARITIES.keys()


@final
class Manhattan(Similarity):
    """Minus the sum of absolute differences."""

    def score(self, query: Tensor, gallery: Tensor, columns: slice | Tensor, out: Tensor) -> None:
        out.copy_(-torch.cdist(query, gallery, 1))


@final
class OfTiles(Similarity):
    """A product whose last digits depend on the number of items in a tile."""

    def score(self, query: Tensor, gallery: Tensor, columns: slice | Tensor, out: Tensor) -> None:
        product(query, gallery, out)
        out.mul_(1 + 1e-7 * len(gallery))


class NotFinal(Similarity):
    """A product."""

    def score(self, query: Tensor, gallery: Tensor, columns: slice | Tensor, out: Tensor) -> None:
        product(query, gallery, out)


def test_a_similarity_without_a_reference_or_a_type_is_told_what_to_add():
    with pytest.raises(AssertionError) as caught:
        check_similarity("taxi", Manhattan)
    for words in (
        "'taxi' has no slow reference: add its scores to `SIMILARITIES`",
        "'taxi' is no `SimilarityName`: add it",
        "'taxi' is not in the row of `similarity` in docs/conventions.md: add it",
        "'taxi' is not in the docstring of evaluate: add it",
    ):
        assert words in str(caught.value)


def test_a_similarity_that_is_in_no_docstring_is_told_which():
    text = {"evaluate": 'similarity: "cosine", or "dot".'}
    with (
        mock.patch(f"{__name__}.docstrings", return_value=text),
        pytest.raises(AssertionError, match="'hamming' is not in the docstring of evaluate: add it"),
    ):
        check_similarity("hamming", SIMILARITIES["hamming"])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Manhattan, r"comparable scores of 'dot' with torch.float32 differ from `SIMILARITIES\['dot'\]`"),
        (OfTiles, "scores of 'dot' with torch.float32 depend on the tiles, here of 10 items"),
        (NotFinal, "the class of 'dot' must be final: decorate it"),
        (partial, "'dot' must be a subclass of `Similarity`"),
    ],
)
def test_a_similarity_that_breaks_the_contract_is_told_so(kind, message):
    with pytest.raises(AssertionError, match=message):
        check_similarity("dot", kind)


def test_a_floor_above_a_score_is_told_so(monkeypatch):
    def product(query: Tensor, gallery: Tensor) -> Tensor:
        return (query * gallery).sum(1)

    # The floor is one that the rounding of the product passes.
    without_rounding = PairSimilarity(score=product, floor=lambda _similarity, _query, _columns, least: least)
    monkeypatch.setitem(PAIR_SIMILARITIES, "dot", without_rounding)
    with pytest.raises(AssertionError, match="is above a score: subtract what rounding may add"):
        check_similarity("dot", SIMILARITIES["dot"])
