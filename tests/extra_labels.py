"""Random problems with labels that users name, and the ranks that the slow reference finds for them."""

import math
import random
from typing import Any

import torch

from tests.reference.relevance import sort_gallery
from tests.reference.retrieval import positive_ranks

NAMES = ("batch", "plate", "side")
PROTOCOL = {"junk_identities": (-1,), "same_camera": "keep"}


class Problem:
    """Queries and gallery items with one to three labels by name, integers or texts, and perhaps cameras."""

    def __init__(self, seed: int) -> None:
        chosen = random.Random(seed)  # noqa: S311 - nothing is to be kept secret
        self.num_queries, self.num_gallery = chosen.randint(1, 6), chosen.randint(1, 20)
        self.names = chosen.sample(NAMES, chosen.randint(1, 3))
        self.has_cameras = chosen.random() < 0.5
        kinds = {name: chosen.choice(["integers", "texts"]) for name in self.names}
        self.samples: list[dict[str, Any]] = []
        for _ in range(self.num_queries + self.num_gallery):
            sample: dict[str, Any] = {"identity": chosen.randint(-1, 2)}
            if self.has_cameras:
                sample["camera"] = chosen.randint(0, 2)
            for name, kind in kinds.items():
                number = chosen.randint(-1, 1)
                sample[name] = number if kind == "integers" else f"{name} {number}"
            self.samples.append(sample)
        self.options: dict[str, Any] = {"must_agree": [], "must_differ": []}
        for name in self.names:
            self.options[chosen.choice(["must_agree", "must_differ"])].append(name)
        if self.has_cameras:
            self.options["same_camera"] = chosen.choice(["same_identity", "all", "only", "keep"])
        if self.has_cameras and self.options["same_camera"] == "keep":
            self.options[chosen.choice(["must_agree", "must_differ"])].append("cameras")
        codes = [[chosen.randint(0, 2) for _ in range(3)] for _ in self.samples]
        self.embeddings = torch.tensor(codes, dtype=torch.float32)

    @property
    def queries(self) -> range:
        """The samples that are queries."""
        return range(self.num_queries)

    @property
    def gallery(self) -> range:
        """The samples that are gallery items."""
        return range(self.num_queries, len(self.samples))

    @property
    def scores(self) -> torch.Tensor:
        """Dot products of all queries and gallery items, whole numbers."""
        return self.embeddings[: self.num_queries] @ self.embeddings[self.num_queries :].T

    def labels(self, places, prefix: str = "") -> dict[str, Any]:
        """The labels of some samples, as arguments."""
        arguments: dict[str, Any] = {f"{prefix}identities": [self.samples[place]["identity"] for place in places]}
        if self.has_cameras:
            arguments[f"{prefix}cameras"] = [self.samples[place]["camera"] for place in places]
        arguments[f"{prefix}labels"] = {name: [self.samples[place][name] for place in places] for name in self.names}
        return arguments

    def of_both(self, gallery: str = "gallery_") -> dict[str, Any]:
        """The labels of queries and of gallery items, as arguments."""
        return self.labels(self.queries, "query_") | self.labels(self.gallery, gallery)

    def expected(self) -> list[tuple[list[int], int]]:
        """The ranks of the positives of each query, and its number of candidates."""
        gallery = [self.samples[place] for place in self.gallery]
        rules: dict[str, Any] = dict(self.options)
        for rule in ("must_agree", "must_differ"):
            rules[rule] = ["camera" if name == "cameras" else name for name in self.options[rule]]
        found = []
        for query in self.queries:
            candidates = sort_gallery(self.samples[query], gallery, **rules)
            ranks = positive_ranks(self.scores[query].tolist(), candidates.positive, candidates.negative)
            found.append((ranks, len(candidates.positive) + len(candidates.negative)))
        return found

    def expected_map(self) -> float:
        """The mean average precision; NaN where no query has a positive."""
        values = []
        for ranks, _ in self.expected():
            if ranks:
                values.append(math.fsum(number / rank for number, rank in enumerate(ranks, 1)) / len(ranks))
        return math.fsum(values) / len(values) if values else math.nan


def ranks_in(results) -> list[tuple[list[int], int]]:
    """The ranks of the positives of each query in some results, and its number of candidates."""
    ranks = results.ranks
    parts = ranks.rank.split(ranks.num_positives.tolist())
    return [(part.tolist(), number) for part, number in zip(parts, ranks.num_candidates.tolist(), strict=True)]
