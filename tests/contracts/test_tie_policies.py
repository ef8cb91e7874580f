"""The contract of a tie policy: what every row of `TIE_POLICIES` must satisfy, and rows that do not."""

from dataclasses import replace
from pathlib import Path
from typing import get_args
from unittest import mock

import pytest
import torch
from torch import Tensor

from reid_torchmetrics import ReIDMeanAP, _names, evaluate_scores
from reid_torchmetrics.functional.retrieval import rank_positives_from_scores
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, TiePolicy
from reid_torchmetrics.tasks import RankCounter
from tests.contracts.missing import assert_nothing_missing
from tests.profiles import each_row
from tests.reference import measures, ties
from tests.reference import retrieval as reference
from tests.tied_groups import of_each_positive

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"docs/concepts/ties.md": '| `"{}"`', "docs/conventions.md": 'ties="{}"'}
NUM_QUERIES, NUM_GALLERY = 9, 8
IDENTITIES = torch.arange(NUM_QUERIES) % 4, torch.arange(NUM_GALLERY) % 3
BOUNDS = (64, 700, None)


NOT_WHOLE = 0.3
"""a factor that makes whole scores other ones, and equal scores equal ones"""


def scores_of(num_levels: int) -> Tensor:
    """Scores, of which a query has so many different ones."""
    generator = torch.Generator().manual_seed(num_levels)
    return torch.randint(0, num_levels, (NUM_QUERIES, NUM_GALLERY), generator=generator).float()


def check_tie_policy(policy: TiePolicy) -> None:
    """Raise an AssertionError unless a row keeps the contract of a tie policy; its message says what to add."""
    name = policy.name
    reference_words = (
        "has no slow reference: add its order of equal scores to `TIE_ORDERS` in tests/reference/retrieval.py"
    )
    found = {
        reference_words: name in reference.TIE_ORDERS,
        "is no `TieName`: add it in _names.py": name in get_args(_names.TieName),
        "has no `sentence`: say who goes first": bool(policy.sentence),
        "needs places of the gallery: add it to `TieByPlace` in _names.py": (
            policy.by_place is None or name in get_args(_names.TieByPlace)
        ),
    }
    for page, text in PAGES.items():
        words = (DOCS.parent / page).read_text(encoding="utf-8")
        found[f"is not in {page}: add a row with `{text.format(name)}`"] = text.format(name) in words
    assert_nothing_missing(name, found)
    assert (name in reference.GROUPING_TIES) == policy.groups, (
        f"{name!r} has `groups` {policy.groups}: `GROUPING_TIES` in tests/reference/retrieval.py lists those that have"
    )
    check_fields(policy)
    with mock.patch.dict(TIE_POLICIES, {name: policy}):
        for num_levels in (1, 3, 1000):
            for factor in (1, NOT_WHOLE):  # whole scores are ranked without `count`
                check_ranks(policy, factor * scores_of(num_levels))
            check_numbers(policy, scores_of(num_levels))
        check_lists(policy, NOT_WHOLE * scores_of(3))
        check_streams(policy)


def check_fields(policy: TiePolicy) -> None:
    """Groups and an order exclude each other."""
    orders = policy.by_place is not None or policy.positives_first
    assert not (policy.groups and orders), (
        f"{policy.name!r} has `groups` and an order: without `by_place` and `positives_first` its ranks are the"
        " pessimistic ones, which measures of groups need"
    )
    assert policy.groups or not policy.averages, f"{policy.name!r} has `averages` without `groups`: set both"


def check_ranks(policy: TiePolicy, scores: Tensor) -> None:
    """Ranks and groups are those of the slow reference, in tiles of any size."""
    expected = reference.evaluate(
        scores.double().numpy(), *(labels.tolist() for labels in IDENTITIES), ties=policy.name
    )
    for max_bytes in BOUNDS:
        ranks = rank_positives_from_scores(scores, *IDENTITIES, ties=policy.name, max_bytes=max_bytes)
        assert ranks.rank.tolist() == sum(expected.ranks, []), (
            f"ranks of {policy.name!r} with `max_bytes` {max_bytes} differ from its order in `TIE_ORDERS` of"
            " tests/reference/retrieval.py: mend `count`, `by_place` or `positives_first`"
        )
        assert (ranks.tied is not None) == policy.groups, f"{policy.name!r}: groups are kept by `groups` alone"
        if expected.tied is not None:
            wanted = [positive for of_query in expected.tied for positive in of_query]
            assert [*map(tuple, of_each_positive(ranks).tolist())] == wanted, f"{policy.name!r} has other groups"


def check_numbers(policy: TiePolicy, scores: Tensor) -> None:
    """Average precision is that of the ranks, of groups, or the mean over all orders."""
    results = evaluate_scores(scores, *IDENTITIES, ties=policy.name)
    values = results.per_query["map"].tolist()
    for row, identity, value in zip(scores.tolist(), IDENTITIES[0].tolist(), values, strict=True):
        is_positive = [other == identity for other in IDENTITIES[1].tolist()]
        places = [place for place, positive in enumerate(is_positive) if positive]
        if not places:
            continue
        others = [place for place, positive in enumerate(is_positive) if not positive]
        hits = reference.ranked_hits(row, places, others, policy.name)
        groups: measures.Groups = tuple((1, 0) if hit else (0, 1) for hit in hits)
        if policy.groups:
            groups = ties.groups_of_scores([*zip(row, is_positive, strict=True)])
        expected = measures.average_precision(groups)
        if policy.name in reference.AVERAGING_TIES:
            expected = ties.expectation(measures.average_precision, groups)
        assert value == pytest.approx(float(expected), abs=1e-12), (
            f"average precision under {policy.name!r} is {value}, not {float(expected)}, from the definition"
        )


def check_lists(policy: TiePolicy, scores: Tensor) -> None:
    """A positive is at its rank in the list of the nearest, unless groups share ranks."""
    results = evaluate_scores(scores, *IDENTITIES, ties=policy.name)
    is_positive = results.nearest(NUM_GALLERY).is_positive
    if not policy.groups:
        ranks = (is_positive.nonzero()[:, 1] + 1).tolist()
        assert ranks == results.ranks.rank.tolist(), (
            f"`count` and the lists of {policy.name!r} differ in the order of equal scores: lists, in"
            " ranking/nearest.py, know the order of the gallery and that of `positives_first`; add another one to"
            " `_Lists` and `_is_before`"
        )


def check_streams(policy: TiePolicy) -> None:
    """Metrics take the name; streams take it unless places decide, and then say so."""
    ReIDMeanAP(ties=policy.name)
    rows = torch.eye(3), torch.eye(3), torch.arange(3), torch.arange(3)
    if policy.by_place is None:
        RankCounter(*rows, ties=policy.name)
        return
    with pytest.raises(ValueError, match="`ties` must be one of "):
        RankCounter(*rows, ties=policy.name)


@each_row("name", TIE_POLICIES)
def test_a_tie_policy_keeps_its_contract(name):
    assert TIE_POLICIES[name].name == name
    check_tie_policy(TIE_POLICIES[name])


def test_every_reference_is_of_a_row():
    assert reference.TIE_ORDERS.keys() <= TIE_POLICIES.keys()


PESSIMISTIC = TIE_POLICIES["pessimistic"]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (replace(PESSIMISTIC, name="last"), "'last' has no slow reference: add its order of equal scores"),
        (replace(PESSIMISTIC, groups=True), "'pessimistic' has `groups` True: `GROUPING_TIES`"),
        (replace(PESSIMISTIC, sentence=""), "'pessimistic' has no `sentence`"),
        (replace(PESSIMISTIC, averages=True), "has `averages` without `groups`: set both"),
        (replace(PESSIMISTIC, count=TIE_POLICIES["optimistic"].count), "differ from its order in `TIE_ORDERS`"),
        (replace(PESSIMISTIC, positives_first=True), "differ from its order in `TIE_ORDERS`"),
        (
            replace(TIE_POLICIES["grouped"], averages=True),
            "average precision under 'grouped' is .* from the definition",
        ),
        (replace(TIE_POLICIES["grouped"], positives_first=True), "'grouped' has `groups` and an order"),
    ],
)
def test_a_policy_that_breaks_the_contract_is_told_so(policy, message):
    with pytest.raises(AssertionError, match=message):
        check_tie_policy(policy)


@pytest.mark.parametrize(
    "words",
    [
        "is no `TieName`: add it",
        "is not in docs/concepts/ties",
        "is not in docs/conv",
        "needs places of the gallery: add it to `TieByPlace`",
    ],
)
def test_a_policy_that_other_places_do_not_know_is_told_what_to_add(words):
    with pytest.raises(AssertionError, match=f"'last' {words}"):
        check_tie_policy(replace(TIE_POLICIES["stable"], name="last"))
