"""What one door refuses all refuse: a protocol without the labels that it needs, or with a gallery of its own."""

import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import (
    PROTOCOLS,
    RankCounter,
    evaluate,
    evaluate_lists,
    evaluate_scores,
    evaluate_stream,
)

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
    evaluate_stream(counter, protocol=name)


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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_door_refuses_what_evaluate_refuses(name):
    refusing = {door for door in DOORS if refuses(door, name)}
    protocol = PROTOCOLS[name]
    # A stream and lists have no drawn galleries, a stream one camera rule, and lists know no cameras.
    alone = {"stream", "lists"} if protocol.draw is not None else set()
    alone |= {"stream"} if protocol.cmc_same_camera is not None else set()
    alone |= {"lists"} if protocol.search_cameras is not None else set()
    assert refusing == {*DOORS} or refusing <= alone
