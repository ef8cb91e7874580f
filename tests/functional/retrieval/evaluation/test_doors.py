"""What one door refuses all refuse: a protocol without the labels that it needs, or with a gallery of its own."""

import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import PROTOCOLS, Protocol, RetrievalResults, evaluate, evaluate_scores
from reid_torchmetrics.tasks import RankCounter, evaluate_lists, evaluate_stream

QUERY, GALLERY = torch.eye(8)[:3], torch.eye(8)[3:]
IDS = {"query_identities": [0, 0, 1], "gallery_identities": [1, 2, 2, 0, 1]}
FURTHER = {"cameras": ([0, 1, 2], [1, 0, 2, 0, 3])}


def sides(names: dict[str, str]) -> dict[str, list[int]]:
    """Cameras by the names of the arguments of a door."""
    return {f"{name}_cameras": values for name, values in zip(names, FURTHER["cameras"], strict=True)}


def by_metric(name: str) -> None:
    metric = ReIDMetrics(protocol=name)
    metric.update(QUERY, IDS["query_identities"], FURTHER["cameras"][0], is_query=True)
    metric.update(GALLERY, IDS["gallery_identities"], FURTHER["cameras"][1], is_query=False)
    metric.results()


def by_stream(name: str) -> None:
    labels = {"query_identities": IDS["query_identities"], "positive_identities": IDS["gallery_identities"]}
    rules = PROTOCOLS[name].relevance_options
    counter = RankCounter(QUERY, GALLERY, **labels, **sides(("query", "positive")), **rules)
    evaluate_stream(counter, 0, protocol=name)


CAMERAS = sides(("query", "gallery"))
DOORS = {
    "evaluate": lambda name: evaluate(QUERY, GALLERY, **IDS, **CAMERAS, protocol=name),
    "evaluate_scores": lambda name: evaluate_scores(QUERY @ GALLERY.T, **IDS, **CAMERAS, protocol=name),
    "metric": by_metric,
    "stream": by_stream,
    "lists": lambda name: evaluate_lists([[0, 1]] * 3, **IDS, protocol=name),
}


def refuses(door: str, name: str) -> bool:
    try:
        DOORS[door](name)
    except ValueError:
        return True
    return False


def results_by_doors(protocol: Protocol) -> dict[str, RetrievalResults]:
    """Results of the same ranking by every door."""
    metric = ReIDMetrics(protocol=protocol)
    metric.update(QUERY, IDS["query_identities"], is_query=True)
    metric.update(GALLERY, IDS["gallery_identities"], is_query=False)
    counter = RankCounter(QUERY, GALLERY, IDS["query_identities"], IDS["gallery_identities"])
    return {
        "evaluate": evaluate(QUERY, GALLERY, **IDS, protocol=protocol),
        "evaluate_scores": evaluate_scores(QUERY @ GALLERY.T, **IDS, protocol=protocol),
        "metric": metric.results(),
        "stream": evaluate_stream(counter, 0, protocol=protocol),
        # All scores are equal: the pessimistic place of a positive is the last.
        "lists": evaluate_lists([[0, 1, 2, 4, 3]] * 2 + [[1, 2, 3, 0, 4]], **IDS, protocol=protocol),
    }


def test_every_door_names_and_follows_a_normalizer_without_k():
    for normalizer in ("positives", "attainable", "hits"):
        protocol = PROTOCOLS["market1501"].with_options({"normalizer": normalizer, "reports": ["map"]})
        words = "over all ranks" + ("" if normalizer == "positives" else f", divided by {normalizer}") + ";"
        for door, results in results_by_doors(protocol).items():
            # One positive at 5 for two queries, two at 4 and 5 for the third.
            assert results.per_query["map"].tolist() == [1 / 5, 1 / 5, (1 / 4 + 2 / 5) / 2], door
            assert words in results.conventions["map"], door
    # Lists that end before the last positive are divided by what they hold.
    cut = evaluate_lists([[3], [0], [1, 2, 3, 0]], **IDS, normalizer="hits", reports=["map"])
    assert cut.per_query["map"].tolist() == [1, 0, 1 / 4]


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_door_refuses_what_evaluate_refuses(name):
    refusing = {door for door in DOORS if refuses(door, name)}
    protocol = PROTOCOLS[name]
    # A stream and lists have no drawn galleries, a stream one camera rule, and lists know no cameras.
    alone = {"stream", "lists"} if protocol.gallery_draw is not None else set()
    alone |= {"stream"} if protocol.cmc_same_camera is not None else set()
    alone |= {"lists"} if protocol.search_cameras is not None else set()
    assert refusing == {*DOORS} or refusing <= alone
