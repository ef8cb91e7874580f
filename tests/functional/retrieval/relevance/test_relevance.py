"""Relevance: who is positive, negative or junk, under every rule and from lists."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.retrieval import Relevance, find_relevance, scores_from_matrix
from reid_torchmetrics.functional.retrieval.ranking import count_ranks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts, find_listed_relevance
from tests.paths import path
from tests.profiles import examples
from tests.reference.relevance import sort_gallery
from tests.reference.retrieval import Candidates, positive_ranks

KEYS = {
    "identities": "identity",
    "cameras": "camera",
    "sequences": "sequence",
    "clothes": "clothes",
    "positions": "coordinates",
}
AGREEMENT_RULES = ("must_agree", "must_differ")
EXTRA = ("batch", "plate", "side")
"""labels that only users name"""


@dataclass
class Problem:
    """Samples with all labels, the rules, and what the slow reference says of them."""

    queries: list[dict[str, int]]
    gallery: list[dict[str, int]]
    rules: dict[str, object]
    junk_pairs: Tensor | None
    scores: Tensor
    num_axes: int
    """of coordinates"""

    def relevance(self) -> Relevance:
        labels = {
            f"{side}_{name}": torch.tensor([sample[key] for sample in samples], dtype=torch.int64).reshape(
                (len(samples), self.num_axes) if key == "coordinates" else len(samples)
            )
            for side, samples in (("query", self.queries), ("gallery", self.gallery))
            for name, key in KEYS.items()
            if key in self.rules["labels"]
        }
        for side, samples in (("query", self.queries), ("gallery", self.gallery)):
            extra = {name for rule in AGREEMENT_RULES for name in self.rules[rule] if name in EXTRA}
            labels[f"{side}_labels"] = {name: [sample[name] for sample in samples] for name in extra}
        mask = self.junk_pairs
        return find_relevance(
            **labels,
            **{name: value for name, value in self.rules.items() if name != "labels"},
            junk_pairs=None if mask is None else lambda rows, columns: mask[rows[:, None], columns],
            self_index=torch.tensor([query["position"] for query in self.queries], dtype=torch.int64),
        )

    def expected(self) -> list[Candidates]:
        rules = {name: value for name, value in self.rules.items() if name != "labels"}
        rules |= {rule: [KEYS.get(name, name) for name in self.rules[rule]] for rule in AGREEMENT_RULES}
        return [
            sort_gallery(
                {key: query[key] for key in (*self.rules["labels"], *EXTRA, "position")},
                self.gallery,
                **rules,
                is_junk_pair=lambda position, row=row: (
                    self.junk_pairs is not None and bool(self.junk_pairs[row, position])
                ),
            )
            for row, query in enumerate(self.queries)
        ]


def draw_agreement(draw, rules) -> dict[str, list[str]]:
    """The labels that must agree and those that must differ, such that some positives may remain."""
    must_agree, must_differ = set(), set()
    for name in EXTRA:
        chosen = draw(st.sampled_from([None, None, must_agree, must_differ]))
        if chosen is not None:
            chosen.add(name)
    if "camera" in rules["labels"] and draw(st.booleans()):
        fitting = {"keep": [must_agree, must_differ], "only": [must_agree]}.get(rules["same_camera"], [must_differ])
        draw(st.sampled_from(fitting)).add("cameras")
    if "clothes" in rules["labels"] and draw(st.booleans()):
        fitting = {"drop_other": [must_agree], "drop_same": [must_differ]}
        draw(st.sampled_from(fitting.get(rules["clothes"], [must_agree, must_differ]))).add("clothes")
    if "sequence" in rules["labels"] and draw(st.booleans()):
        must_differ.add("sequences")
    return {"must_agree": sorted(must_agree), "must_differ": sorted(must_differ)}


@st.composite
def ruled_problems(draw) -> Problem:
    num_axes = draw(st.integers(1, 3))
    sample = st.fixed_dictionaries(
        {
            "identity": st.integers(-1, 2),
            "camera": st.integers(1, 4),
            "sequence": st.integers(0, 4),
            "clothes": st.integers(0, 1),
            "batch": st.integers(-1, 1),
            "plate": st.sampled_from(["p1", "p2", "-1"]),
            "side": st.sampled_from(["left", "right"]),
            "coordinates": st.tuples(*[st.integers(10**6, 10**6 + 9)] * num_axes),
        }
    )
    gallery = draw(st.lists(sample, max_size=12))
    queries = [query | {"position": -1} for query in draw(st.lists(sample, max_size=4))]
    queries += [gallery[place] | {"position": place} for place in range(len(gallery)) if draw(st.booleans())][:3]
    radius = draw(st.sampled_from([None, 0.0, 2.0, 5.0]))
    further = draw(st.sets(st.sampled_from(["camera", "sequence", "clothes"])))
    needed = {"identity"} if radius is None else {"coordinates"} | draw(st.sampled_from([set(), {"identity"}]))
    labels = tuple(key for key in KEYS.values() if key in needed | further)
    rules = {
        "labels": labels,
        "same_camera": draw(st.sampled_from(["same_identity", "all", "only", "keep"])),
        "camera_map": draw(st.sampled_from([None, {}, {3: 2}, {1: 4, 2: 4}])),
        "search_cameras": draw(st.sampled_from([None, (1, 2), ()])) if "camera" in labels else None,
        "junk_identities": draw(st.sampled_from([(-1,), ()])),
        "clothes": draw(st.sampled_from(["keep", "drop_same", "drop_other"])) if "clothes" in labels else "keep",
        "radius": radius,
    }
    rules |= draw_agreement(draw, rules)
    shape = (len(queries), len(gallery))
    seeded = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    mask = torch.rand(shape, generator=seeded) < 0.3 if draw(st.booleans()) else None
    return Problem(queries, gallery, rules, mask, torch.rand(shape, generator=seeded), num_axes)


@examples(80)
@given(ruled_problems(), st.sampled_from([1, 1 << 22]), st.sampled_from([0, 1, 4]))
def test_every_pair_is_what_the_slow_reference_says(problem, pairs_at_a_time, max_differing):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(*path("max_differing"), max_differing)
        patched.setattr(*path("listed_pairs"), pairs_at_a_time)
        patched.setattr(*path("labeled_pairs"), pairs_at_a_time)
        found = problem.relevance()
        expected = problem.expected()
        kept = range(found.num_gallery) if found.kept is None else found.kept.tolist()
        if not problem.queries:
            return
        tile = found.tile(slice(0, len(problem.queries)))
        positive, negative = found.pairs(slice(0, len(problem.queries)), slice(0, found.num_kept), tile)
    for row, candidates in enumerate(expected):
        assert [kept[column] for column in positive[row].nonzero()[:, 0]] == candidates.positive
        assert [kept[column] for column in negative[row].nonzero()[:, 0]] == candidates.negative
        assert int(tile.num_positives[row]) == len(candidates.positive)
        assert int(tile.num_candidates[row]) == len(candidates.positive) + len(candidates.negative)


@examples(60)
@given(ruled_problems(), st.sampled_from([1, 200, 10**6]))
def test_ranks_under_every_rule_are_those_of_the_slow_reference(problem, max_bytes):
    found = problem.relevance()
    ranks = count_ranks(scores_from_matrix(problem.scores, found, max_bytes=max_bytes), found, ties="pessimistic")
    expected = [
        positive_ranks(row.tolist(), candidates.positive, candidates.negative)
        for row, candidates in zip(problem.scores, problem.expected(), strict=True)
    ]
    assert [part.tolist() for part in ranks.rank.split(ranks.num_positives.tolist())] == expected


@st.composite
def lists(draw) -> tuple[list[list[int]], list[list[int]], int]:
    num_gallery = draw(st.integers(0, 10))
    kinds = st.lists(st.sampled_from("pjn"), min_size=num_gallery, max_size=num_gallery)
    drawn = draw(st.lists(kinds, max_size=4))
    listed = [[[place for place, kind in enumerate(row) if kind == wanted] for row in drawn] for wanted in "pj"]
    return *([draw(st.permutations(row)) for row in kind] for kind in listed), num_gallery


@examples(60)
@given(lists(), st.integers(0, 9))
def test_ranks_from_lists_are_those_of_the_slow_reference(problem, seed):
    positives, junk, num_gallery = problem
    scores = torch.rand((len(positives), num_gallery), generator=torch.Generator().manual_seed(seed))
    found = find_listed_relevance(as_tensors(positives), as_tensors(junk), num_gallery=num_gallery)
    ranks = count_ranks(scores_from_matrix(scores, found), found, ties="pessimistic")
    negatives = [
        [place for place in range(num_gallery) if place not in own + out]
        for own, out in zip(positives, junk, strict=True)
    ]
    expected = [
        positive_ranks(row.tolist(), own, others) for row, own, others in zip(scores, positives, negatives, strict=True)
    ]
    assert [part.tolist() for part in ranks.rank.split(ranks.num_positives.tolist())] == expected
    assert ranks.num_candidates.tolist() == [num_gallery - len(out) for out in junk]
    assert found.num_others.tolist() == [len(own) for own in positives]


def as_tensors(rows: list[list[int]]) -> list[Tensor]:
    return [torch.tensor(row, dtype=torch.int64) for row in rows]


def test_a_query_in_the_gallery_is_junk_of_its_lists_listed_or_not():
    lists = as_tensors([[0, 2], [1], [3]]), as_tensors([[3], [0, 2], []])
    found = find_listed_relevance(*lists, num_gallery=4, self_index=torch.tensor([0, 2, -1]))
    positive, negative = found.pairs(slice(0, 3), slice(0, 4), found.tile(slice(0, 3)))
    assert [row.nonzero()[:, 0].tolist() for row in positive] == [[2], [1], [3]]
    assert [row.nonzero()[:, 0].tolist() for row in negative] == [[1], [3], [0, 1, 2]]
    alone = find_listed_relevance(as_tensors([[0], [1]]), num_gallery=2, self_index=torch.tensor([1, 0]))
    assert alone.tile(slice(0, 2)).num_candidates.tolist() == [1, 1]
    assert alone.num_others.tolist() == [1, 1]


@pytest.mark.parametrize("first", [-2, 4])
def test_a_query_of_lists_lies_in_the_gallery_or_is_minus_one(first):
    with pytest.raises(ValueError, match=r"^`self_index` must lie in \[-1, 4\); got values from "):
        find_listed_relevance(as_tensors([[0], [1]]), num_gallery=4, self_index=torch.tensor([first, 0]))


def test_queries_are_counted_by_the_reason_that_they_lack_a_positive():
    # Junk, of no item, of the item of its own camera, with itself alone, and with a positive; items of 9 are negatives.
    identities, gallery = torch.tensor([-1, 5, 6, 7, 8, 8]), torch.tensor([-1, 6, 7, 8, 8, 9])
    cameras, own = torch.tensor([0, 0, 1, 0, 0, 0]), torch.tensor([-1, -1, -1, 2, 3, -1])
    found = find_relevance(identities, gallery, cameras, torch.tensor([1, 1, 0, 0, 1, 1]), self_index=own)
    num_positives = found.tile(slice(0, 6)).positive.sum(1)
    assert (found.num_others.tolist(), num_positives.tolist()) == ([0, 0, 1, 0, 1, 2], [0, 0, 0, 0, 1, 1])
    assert found.counts(num_positives) == QueryCounts(6, valid=2, junk=1, not_in_gallery=2, same_camera_only=1)
    assert found.counts(num_positives).not_ranked == 0
    # Of a part of the gallery: where all others are is what is counted.
    elsewhere = found.counts(num_positives, num_others=torch.tensor([3, 1, 1, 0, 1, 2]))
    assert elsewhere == QueryCounts(6, valid=2, junk=1, not_in_gallery=1, same_camera_only=2)
    assert (found.longest_run, found.drops_others, found.num_queries) == (2, False, 6)


LABELS = (torch.tensor([7]), torch.tensor([7, 8]))
BAD = [
    ({"camera_map": [3, 2]}, TypeError, "`camera_map` must be a mapping of ints or names, or None; got list."),
    (
        {"camera_map": {3: 2, 2: 1}},
        ValueError,
        "`camera_map` must map to cameras that are not mapped themselves; got [2] on both sides.",
    ),
    ({"search_cameras": (1,)}, ValueError, "`search_cameras` must come with cameras; got no `gallery_cameras`."),
    (
        {"query_sequences": torch.tensor([1])},
        ValueError,
        (
            "`query_sequences` and `gallery_sequences` must be given together; got `query_sequences` without"
            " `gallery_sequences`."
        ),
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_a_bad_rule_is_named(options, error, message, unannotated):
    with pytest.raises(error) as raised:
        find_relevance(*LABELS, **options)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.zeros(1, 2), TypeError, "`junk_pairs` must return a bool tensor [1, 2]; got torch.float32."),
        (
            torch.zeros(2, 1, dtype=torch.bool),
            ValueError,
            "`junk_pairs` must return a mask [1, 2] on cpu; got [2, 1] on cpu.",
        ),
    ],
)
def test_a_bad_mask_of_pairs_is_named(mask, error, message):
    found = find_relevance(*LABELS, junk_pairs=lambda _, __: mask)
    with pytest.raises(error) as raised:
        found.pairs(slice(0, 1), slice(0, 2), found.tile(slice(0, 1)))
    assert str(raised.value) == message


BAD_LISTS = [
    (([torch.tensor([0, 5])],), ValueError, "`positives[0]` must lie in [0, 3); got values from 0 to 5."),
    (
        ([torch.tensor([0, 1])], [torch.tensor([1])]),
        ValueError,
        "`positives` and `junk` must list a gallery item once for a query; got item 1 twice for query 0.",
    ),
    (([torch.tensor([0])], []), ValueError, "`junk` must hold one tensor for each of 1 queries; got 0."),
    ((torch.tensor([0]),), TypeError, "`positives` must be a sequence of tensors, one per query; got Tensor."),
    (([torch.tensor([0.5])],), TypeError, "`positives[0]` must have an integer dtype; got torch.float32."),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD_LISTS)
def test_a_bad_list_is_named(arguments, error, message, unannotated):
    with pytest.raises(error) as raised:
        find_listed_relevance(*arguments, num_gallery=3)
    assert str(raised.value) == message


@pytest.mark.parametrize("number", [0, 1, 8, 9, 40])
def test_junk_identities_and_searched_cameras_may_be_few_or_many(number):
    identities, cameras = torch.stack([torch.arange(100) % 50, torch.arange(100) % 45], 1).unbind(1)  # columns
    chosen = range(3, 3 + number)
    found = find_relevance(
        torch.tensor([49]), identities, torch.tensor([0]), cameras, junk_identities=chosen, search_cameras=range(number)
    )
    expected = [place for place in range(100) if place % 50 not in chosen and place % 45 < number]
    assert (list(range(100)) if found.kept is None else found.kept.tolist()) == expected


@pytest.mark.parametrize("number", [0, 1, 8, 9, 30])
def test_the_items_of_few_and_of_many_identities_are_listed(number):
    identities = torch.arange(200) * 7 % 31
    found = find_relevance(torch.arange(number), identities, junk_identities=())
    for query in range(number):
        run = found.order[found.run_start[query] : found.run_start[query] + found.run_length[query]]
        assert run.tolist() == (identities == query).nonzero()[:, 0].tolist()
    assert len(found.order) == int(found.run_length.sum())
