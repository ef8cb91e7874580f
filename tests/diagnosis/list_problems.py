"""Ranked lists of models that learned something or nothing, and what users may get wrong about them."""

import numpy as np

from tests.diagnosis.contract import told_by

MODELS = {"perfect": 0.1, "trained": 0.6, "middling": 0.8, "weak": 1.5, "untrained": None}
"""noise of embeddings around the center of their identity"""


class Searched:
    """Embeddings of both sides with identities, and exact search."""

    def __init__(self, seed, *, model="trained", num_queries=60, num_gallery=400, dim=16, is_sorted=False):
        rng = np.random.default_rng(seed)
        number = max(5, num_gallery // 8)
        self.query_identities = rng.integers(number, size=num_queries)
        self.gallery_identities = rng.permutation(np.arange(num_gallery) % number)
        if is_sorted:
            self.gallery_identities = np.sort(self.gallery_identities)
        centers = rng.standard_normal((number, dim))
        noise = MODELS[model]
        sides = []
        for labels in (self.query_identities, self.gallery_identities):
            error = rng.standard_normal((len(labels), dim))
            sides.append(error if noise is None else centers[labels] + noise * error)
        self.query, self.gallery = sides
        self.distances = ((sides[0][:, None] - sides[1]) ** 2).sum(-1)
        self.nearest = np.argsort(self.distances, axis=1)

    @property
    def positives(self):
        """Positions in the gallery of the items of each query's identity."""
        return [np.flatnonzero(self.gallery_identities == label).tolist() for label in self.query_identities]

    @property
    def labels(self):
        return {"query_identities": self.query_identities, "gallery_identities": self.gallery_identities}


def advice(call, *args, **options):
    """The advice that a call gives."""
    return told_by(lambda: call(*args, **options))


def scored(lists, scores):
    """Mappings of the items of each list to their scores, in the order of the list."""
    return [{int(item): float(row[item]) for item in items} for items, row in zip(lists, scores, strict=True)]


def named(lists, name):
    return [[name(int(item)) for item in items] for items in lists]


SPELLINGS = {
    "folders": (lambda item: f"gallery/{item:05d}.png", lambda item: f"{item:05d}.png"),
    "folders of identities": (
        lambda item: f"data/test/{item % 9}/{item // 9}.jpg",
        lambda item: f"{item % 9}/{item // 9}.jpg",
    ),
    "extensions": (lambda item: f"d{item}.jpg", lambda item: f"d{item}"),
    "two extensions": (lambda item: f"d{item}.npy", lambda item: f"d{item}.jpg"),
    "case": (lambda item: f"IMG_{item}.JPG", lambda item: f"img_{item}.jpg"),
    "backslashes": (lambda item: f"a\\b{item % 7}\\{item}.jpg", lambda item: f"a/b{item % 7}/{item}.jpg"),
    "leading zeros": (lambda item: f"{item:05d}", str),
    "prefixes": (lambda item: f"doc-{item}", str),
    "Unicode": (lambda item: f"straße_é_{item}".replace("é", "e\u0301"), lambda item: f"straße_é_{item}"),
    "all of it": (lambda item: f"C:\\Data\\Img_{item:04d}.PNG", lambda item: f"gallery/img_{item:04d}.jpg"),
}
"""two spellings of the name of an item"""
