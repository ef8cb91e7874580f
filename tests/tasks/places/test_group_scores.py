"""Scores of groups: those of their best members, piece by piece, and who these members are."""

from random import Random

import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.scores import EmbeddingScores, MatrixScores, Rows
from reid_torchmetrics.tasks.places.grouped_gallery import GroupScores
from tests.profiles import examples


@examples(40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8), st.sampled_from([1, 40, 200, 10**6]))
def test_a_group_scores_as_its_best_members(seed, num_queries, num_groups, max_bytes):
    random = Random(seed)  # noqa: S311
    sizes = [random.randint(1, 5) for _ in range(num_groups)]
    table = [[[float(random.randint(0, 2)) for _ in range(size)] for size in sizes] for _ in range(num_queries)]
    positions = random.sample(range(100), sum(sizes))
    members = MatrixScores(torch.tensor([sum(row, []) for row in table]), kept=None, max_bytes=max_bytes)
    scores = GroupScores(members, torch.tensor(positions), torch.tensor(sizes))
    assert (scores.num_queries, scores.num_gallery, scores.dtype) == (num_queries, num_groups, torch.float32)
    assert scores.max_bytes <= max_bytes / 2
    assert scores.all().tolist() == [[max(group) for group in row] for row in table]
    rows, columns = (sorted(random.sample(range(end + 1), 2)) for end in (num_queries, num_groups))
    out = torch.full((rows[1] - rows[0], columns[1] - columns[0]), torch.nan)
    scores.fill(out, slice(*rows), slice(*columns))
    assert out.tolist() == [[max(group) for group in row[slice(*columns)]] for row in table[slice(*rows)]]

    pairs = [(random.randrange(num_queries), random.randrange(num_groups)) for _ in range(random.randint(1, 9))]
    best = []
    for query, group in pairs:
        first, values = sum(sizes[:group]), table[query][group]
        best.append([positions[first + place] for place, value in enumerate(values) if value == max(values)])
    asked = torch.tensor(pairs).T
    assert scores.best_members(*asked).tolist() == [each[0] for each in best]
    found = {}
    for inside, num_best, listed in scores.all_best_members(*asked):
        parts = listed.split(num_best.tolist())
        found |= {pair: part.tolist() for pair, part in zip(inside.tolist(), parts, strict=True)}
    assert found == dict(enumerate(best))


def test_scores_of_groups_become_distances_as_those_of_members_do():
    query, gallery = torch.tensor([[0.0, 0.0], [3.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0], [3.0, 2.0]])
    members = EmbeddingScores(Rows([query]), Rows([gallery]), similarity="euclidean", max_bytes=1000)
    scores = GroupScores(members, torch.arange(3), torch.tensor([2, 1]))
    out = scores.all()
    scores.to_comparable(out, slice(0, 2))
    expected = [[-1.0, -(13**0.5)], [-(10**0.5), -2.0]]
    assert torch.allclose(out, torch.tensor(expected), rtol=1e-6)
