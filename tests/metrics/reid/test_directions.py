"""Both directions of a collection: queries and gallery as given, and exchanged."""

import re
from unittest import mock

import pytest
import torch

from reid_torchmetrics import Protocol, ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate
from reid_torchmetrics.metrics.reid import ranking
from tests.metrics.reid.samples import batches, fed

GIVEN, BOTH = batches(), ("t2i", "i2t")
SIDES = [[batch for batch in GIVEN if batch["is_query"] is role] for role in (True, False)]
QUERY, GALLERY = (
    {name: torch.cat([batch[name] for batch in side]) for name in ("embeddings", "identities", "cameras")}
    for side in SIDES
)


def results_of(query, gallery, **options):
    return evaluate(*(side[name] for name in query for side in (query, gallery)), **options)


def expected(**options):
    """Numbers by name, from two calls."""
    ways = {"t2i": results_of(QUERY, GALLERY, **options), "i2t": results_of(GALLERY, QUERY, **options)}
    values = {f"{way}/{name}": mean for way, results in ways.items() for name, mean in results.means.items()}
    recalls = [value for name, value in values.items() if "rank_" in name]
    return values | ({"rsum": 100 * sum(recalls)} if recalls else {})


def floats(values):
    return {name: float(value) for name, value in values.items()}


@pytest.mark.parametrize(
    "options",
    [{}, {"same_camera": "keep"}, {"protocol": "cuhk03_openreid"}, {"protocol": "market1501_official"}],
    ids=str,
)
def test_a_collection_computes_both_directions(options):
    metrics = fed(ReIDMetrics(directions=BOTH, **options), GIVEN)
    assert floats(metrics.compute()) == pytest.approx(expected(**options), abs=1e-4)
    assert list(metrics)[-1] == "rsum"


def test_names_have_the_prefix_and_rsum_only_where_ranks_are_reported():
    metrics = fed(ReIDMetrics(directions=BOTH, ranks=(1,), prefix="val/", postfix="_ema", reports=("map",)), GIVEN)
    names = [f"val/{name}_ema" for name in ("t2i/map", "t2i/rank_1", "i2t/map", "i2t/rank_1", "rsum")]
    assert list(metrics.compute()) == names
    assert "rsum" not in ReIDMetrics(directions=BOTH, reports=("map", "minp"))


def test_each_direction_is_ranked_once_and_samples_are_stored_once():
    metrics = fed(ReIDMetrics(directions=BOTH), GIVEN)
    with mock.patch.object(ranking, "rank_samples", wraps=ranking.rank_samples) as ranked:
        metrics.compute()
        metrics.results(), metrics.results(direction="i2t")
    assert ranked.call_count == 2
    first, *others = metrics.values(copy_state=False)
    assert all(member.embeddings is first.embeddings for member in others)


@pytest.mark.slow
def test_results_and_lists_are_of_the_direction_that_is_named():
    metrics = fed(ReIDMetrics(directions=BOTH), GIVEN)
    ways = {"t2i": results_of(QUERY, GALLERY), "i2t": results_of(GALLERY, QUERY), None: results_of(QUERY, GALLERY)}
    for direction, wanted in ways.items():
        results = metrics.results(nearest=2, camera_pairs=True, direction=direction)
        assert results.means == pytest.approx(wanted.means, abs=1e-12)
        assert torch.equal(results.nearest(2).index, wanted.nearest(2).index)
        assert torch.equal(metrics.nearest(2, direction=direction).index, wanted.nearest(2).index)
        assert ("exchanged" in str(results)) == (direction == "i2t")
    for call in (metrics.results, metrics.nearest):
        with pytest.raises(ValueError, match=r"^`direction` must be one of 't2i', 'i2t'; got 'v2t'"):
            call(direction="v2t")
    with pytest.raises(ValueError, match=r"^`direction` must"):
        fed(ReIDMetrics(), GIVEN).results(direction="t2i")


def both_directions(process, size):
    metrics = ReIDMetrics(directions=BOTH, protocol=Protocol("own", "me", same_camera="keep"))
    fed(metrics, GIVEN[process::size])
    lists = metrics.nearest(2, direction="i2t")
    return (
        floats(metrics.compute()),
        metrics.results(direction="i2t").first_rank.nan_to_num(0).sort().values.tolist(),
        lists.scores.shape,
    )


def test_processes_compute_both_directions_together(processes):
    (found, ranks, shape), other = processes.run(2, both_directions)
    assert (found, ranks, shape) == other
    assert found == pytest.approx(expected(same_camera="keep"), abs=1e-4)
    alone = results_of(GALLERY, QUERY, same_camera="keep")
    assert ranks == alone.first_rank.nan_to_num(0).sort().values.tolist()
    assert shape == (50, 2)


REFUSED = [
    (("t2i",), "`directions` must be two names without '.' and '/'; got ['t2i']."),
    (("t2i", "t2i"), "`directions` must be two names without '.' and '/'; got ['t2i', 't2i']."),
    (("t/i", "i2t"), "`directions` must be two names without '.' and '/'; got ['t/i', 'i2t']."),
    ("ab", "`directions` must be two names without '.' and '/'; got 'ab'."),
]


@pytest.mark.parametrize(("directions", "message"), REFUSED)
def test_directions_are_two_names(directions, message):
    given = directions if isinstance(directions, str) else list(directions)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ReIDMetrics(directions=given)


def test_directions_need_queries_and_a_gallery():
    with pytest.raises(ValueError, match=r"^`directions` must come with queries and a gallery; got protocol 'cub200'"):
        ReIDMetrics(protocol="cub200", directions=BOTH)
    with pytest.raises(ValueError, match=r"^`is_query` must be given with `directions`"):
        ReIDMetrics(directions=BOTH).update(torch.eye(2), torch.arange(2))
