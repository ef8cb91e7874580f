"""Queries and gallery items with nothing amiss that resemble mistakes: copies, repetitions, few negatives."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from reid_torchmetrics import evaluate
from tests.diagnosis.at_doors.doors import OF_SAMPLES

Sides = tuple[Tensor, Tensor, dict[str, Any]]
"""embeddings of queries and of gallery items, and labels and options of `evaluate`"""


def _labels(random: Random) -> tuple[Tensor, Tensor]:
    number = random.choice((6, 20, 60))
    query = torch.randint(number, (random.choice((12, 40, 90)),))
    return query, torch.randint(number, (random.choice((30, 80, 300)),))


def _by_identity(model: Callable[[Random, Tensor], Tensor]) -> Callable[[Random], Sides]:
    """Return a kind of samples whose embeddings a model gives to both sides at once, by their identities."""

    def draw(random: Random) -> Sides:
        query, gallery = _labels(random)
        embeddings = model(random, torch.cat([query, gallery]))
        embeddings = embeddings.to(random.choice((torch.float32, torch.float32, torch.float16, torch.bfloat16)))
        given = {"query_identities": query, "gallery_identities": gallery}
        return embeddings[: len(query)], embeddings[len(query) :], given

    return draw


def _prototypes(identities: Tensor, dim: int) -> Tensor:
    return torch.randn(int(identities.max()) + 1, dim)[identities]


def _flipped(identities: Tensor, dim: int, share: float) -> Tensor:
    """Codes of an identity, with some bits wrong."""
    signs = torch.where(torch.rand(len(identities), dim) < share, -1.0, 1.0)
    return _prototypes(identities, dim).sign() * signs


MODELS: dict[str, Callable[[Random, Tensor], Tensor]] = {
    "untrained": lambda random, own: torch.randn(len(own), random.choice((1, 2, 3, 16, 256))),
    "narrow cone": lambda random, own: 1 + random.choice((0.001, 0.03)) * torch.randn(len(own), 64),
    "collapsed": lambda random, own: 1 + 1e-6 * torch.randn(len(own), random.choice((1, 2, 16))),
    "constant": lambda random, own: torch.full((len(own), 8), random.choice((0.0, 0.3))),
    "trained": lambda random, own: (
        _prototypes(own, random.choice((4, 64))) + random.choice((0.001, 0.1, 0.5, 1)) * torch.randn(len(own), 1)
    ),
    "one embedding for each identity": lambda random, own: _prototypes(own, random.choice((1, 8, 64))),
    "classes": lambda random, own: one_hot(own).float(),
    "guessed classes": lambda random, own: one_hot(
        torch.where(
            torch.rand(len(own)) < random.choice((0.3, 0.7, 0.95)), own, torch.randint(int(own.max()) + 1, (len(own),))
        )
    ).float(),
    "codes": lambda random, own: _flipped(own, random.choice((4, 12, 64)), random.choice((0.0, 0.01, 0.05, 0.2))),
    "sparse": lambda random, own: (_prototypes(own, 64) + torch.randn(len(own), 64) - random.choice((0, 1, 2))).relu(),
    "dead": lambda random, own: (
        torch.randn(len(own), 16) * (torch.rand(len(own), 1) > random.choice((0.02, 0.5, 0.98)))
    ),
    "neighboring frames": lambda random, own: (
        _prototypes(own, 32) + 0.5 * torch.randn(len(own), 32).cumsum(0) / len(own) ** 0.5
    ),
}


def _augmented(random: Random) -> Sides:
    """Another view of each image in the gallery."""
    identities = torch.arange(random.choice((20, 100))) % random.choice((5, 15))
    images = _prototypes(identities, 32) + random.choice((0.3, 1)) * torch.randn(len(identities), 32)
    gallery = images + random.choice((0.05, 0.2)) * torch.randn_like(images)
    return images, gallery, {"query_identities": identities, "gallery_identities": identities}


def _other_modality(random: Random) -> Sides:
    """Pairs of an image and a text, each alone in its identity, by a model that is as good as it can be."""
    identities = torch.arange(random.choice((20, 100)))
    images = torch.randn(len(identities), 32)
    texts = normalize(images) + random.choice((0, 1e-6, 1e-3)) * torch.randn_like(images)
    return images, texts, {"query_identities": identities, "gallery_identities": identities}


def _captions(random: Random) -> Sides:
    """An image of many captions, which stands in the gallery once for each of them."""
    times, number = random.choice((5, 20)), random.choice((10, 30))
    identities = torch.arange(number).repeat_interleave(times)
    texts = _prototypes(identities, 16) + torch.randn(len(identities), 16)
    return (
        texts,
        torch.randn(number, 16)[identities],
        {"query_identities": identities, "gallery_identities": identities},
    )


def _own_places(random: Random) -> Sides:
    identities = torch.arange(random.choice((30, 90))) % 10
    images = _prototypes(identities, 16) + torch.randn(len(identities), 16)
    given = {"query_identities": identities, "gallery_identities": identities, "self_index": torch.arange(len(images))}
    return images, images.clone(), given


def _cameras(random: Random) -> Sides:
    """All images are on both sides, and a rule of cameras leaves the own image out."""
    identities = torch.arange(random.choice((30, 90))) % 10
    cameras = torch.randint(4, (len(identities),))
    images = _prototypes(identities, 16) + torch.randn(len(identities), 16)
    given = {"query_identities": identities, "gallery_identities": identities}
    return images, images.clone(), given | {"query_cameras": cameras, "gallery_cameras": cameras}


def _several_labels(random: Random) -> Sides:
    """Samples with several labels, by a model that returns them."""
    query, gallery = torch.rand(30, 24) < 0.15, torch.rand(150, 24) < 0.15
    gallery[:30] = query[torch.randperm(30)]
    labels = {"query_identities": query, "gallery_identities": gallery}
    return query.float(), gallery.float(), labels


def _few_classes(random: Random) -> Sides:
    """Two classes, or few samples of one identity."""
    if random.random() < 0.5:
        query, gallery = torch.randint(2, (40,)), torch.cat([torch.arange(2), torch.randint(2, (60,))])
    else:
        query, gallery = torch.zeros(random.randint(1, 9)).long(), torch.zeros(random.randint(2, 15)).long()
    embeddings = torch.randn(len(query) + len(gallery), 16)
    labels = {"query_identities": query, "gallery_identities": gallery}
    return embeddings[: len(query)], embeddings[len(query) :], labels


def _names(random: Random) -> Sides:
    """Identities by name, in more than one spelling on either side, and some of the queries alone."""
    query, gallery = _labels(random)
    words = random.choice(("{}", "{:05d}", "Person {}", "id/{}.jpg"))
    names = {"query_identities": [words.format(number) for number in query.tolist()]}
    names["gallery_identities"] = [words.format(number) for number in gallery.tolist()]
    names["query_identities"][0] = "12 "
    return torch.randn(len(query), 16), torch.randn(len(gallery), 16), names


def _duplicates(random: Random) -> Sides:
    """A data set that has some of its images twice, with their labels."""
    query, gallery = _labels(random)
    again = torch.where(
        torch.rand(len(gallery)) < 0.2, torch.randint(len(gallery), (len(gallery),)), torch.arange(len(gallery))
    )
    images = (_prototypes(gallery, 16) + torch.randn(len(gallery), 16))[again]
    return torch.randn(len(query), 16), images, {"query_identities": query, "gallery_identities": gallery[again]}


RIGHT: dict[str, Callable[[Random], Sides]] = {name: _by_identity(model) for name, model in MODELS.items()} | {
    "augmented": _augmented,
    "another modality": _other_modality,
    "captions": _captions,
    "own places": _own_places,
    "rules of cameras": _cameras,
    "several labels": _several_labels,
    "few classes": _few_classes,
    "names": _names,
    "duplicates": _duplicates,
}
"""kinds of samples, drawn with the seed of torch"""


def right(random: Random, kind: str) -> None:
    """Pass samples that resemble a mistake to two of the entry points."""
    torch.manual_seed(random.getrandbits(32))
    query, gallery, given = RIGHT[kind](random)
    doors = [name for name in OF_SAMPLES if not name.startswith("command")]
    if "self_index" in given:
        doors = ["evaluate", "evaluate_scores", "distances", "evaluate_lists"]
    for door in random.sample(doors, 2):
        OF_SAMPLES[door]({"query": query, "gallery": gallery, **given})
    evaluate(query, gallery, **given, similarity=random.choice(("euclidean", "dot")))


PLACES: dict[str, Callable[[Random, int], Tensor]] = {
    "utm": lambda random, number: (
        torch.tensor([random.uniform(2e5, 8e5), random.uniform(0, 1e7)], dtype=torch.float64)
        + random.choice((50, 500, 5000)) * torch.rand(number, 2, dtype=torch.float64)
    ),
    "whole meters": lambda random, number: (random.uniform(0, 1e7) + 500 * torch.rand(number, 2)).round(),
    "plan": lambda random, number: random.choice((80, 150, 3000)) * torch.rand(number, random.choice((2, 3))),
    "around": lambda random, number: random.choice((80, 150, 3000)) * torch.randn(number, 2) / 2,
    "small": lambda random, number: 10 * (torch.rand(number, 2) - 0.5),
    "frames": lambda random, number: torch.arange(number) * random.choice((1, 2, 5)),
}
"""positions of images [samples, axes] in the unit of the radius"""
