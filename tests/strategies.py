"""Retrieval problems for Hypothesis, biased to what breaks evaluators: ties, junk, empties, one-item galleries."""

from dataclasses import dataclass
from random import Random

import torch
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.scores import SIMILARITIES
from tests.reference.retrieval import Evaluation, evaluate

TIES = tuple(name for name, policy in TIE_POLICIES.items() if not policy.groups)
ALL_TIES = tuple(TIE_POLICIES)
STREAMED_TIES = tuple(name for name, policy in TIE_POLICIES.items() if policy.by_place is None)
SIMILARITIES_OF_ALL = tuple(name for name in SIMILARITIES if name != "hamming")
"""the similarities of any embeddings; "hamming" is of codes alone"""
SAME_CAMERA = ("same_identity", "all", "keep")


@dataclass(frozen=True)
class Problem:
    """Scores and labels of queries and gallery, and the options that decide the ranks."""

    scores: Tensor
    query_identities: Tensor
    gallery_identities: Tensor
    query_cameras: Tensor | None
    gallery_cameras: Tensor | None
    self_index: Tensor | None
    same_camera: str
    junk_identities: tuple[int, ...]
    ties: str

    @property
    def labels(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        return self.query_identities, self.gallery_identities, self.query_cameras, self.gallery_cameras

    @property
    def options(self) -> dict[str, object]:
        names = ("same_camera", "junk_identities", "ties", "self_index")
        return {name: getattr(self, name) for name in names}

    def reference(self) -> Evaluation:
        cameras = [None if labels is None else labels.tolist() for labels in self.labels[2:]]
        return evaluate(
            self.scores.double().numpy(),
            self.query_identities.tolist(),
            self.gallery_identities.tolist(),
            *cameras,
            **(self.options | {"self_index": None if self.self_index is None else self.self_index.tolist()}),
        )


@st.composite
def problems(draw, *, ties=TIES, max_gallery=24) -> Problem:
    """A problem of few identities, cameras and score levels, with or without cameras and leave-one-out."""
    num_queries, num_gallery = draw(st.integers(0, 7)), draw(st.integers(0, max_gallery))
    most_identities, levels = draw(st.sampled_from([0, 1, 4])), draw(st.sampled_from([1, 3, 1000]))
    is_in_gallery = draw(st.booleans())
    # Labels and scores come of one number: to draw each of them by itself takes longer than to rank them.
    random = Random(draw(st.integers(0, 2**32 - 1)))  # noqa: S311 - nothing is to be kept secret
    gallery = [(random.randint(-1, most_identities), random.randint(0, 2)) for _ in range(num_gallery)]
    own = [random.randint(-1, num_gallery - 1) if is_in_gallery else -1 for _ in range(num_queries)]
    others = [(random.randint(-1, most_identities), random.randint(0, 2)) for _ in range(num_queries)]
    queries = [gallery[p] if p >= 0 else other for p, other in zip(own, others, strict=True)]
    listed = [[random.randint(0, levels) for _ in gallery] for _ in queries]
    scores = torch.tensor(listed, dtype=torch.float32)
    has_cameras = draw(st.booleans())
    return Problem(
        scores=scores.reshape(num_queries, num_gallery),
        query_identities=_column(queries, 0),
        gallery_identities=_column(gallery, 0),
        query_cameras=_column(queries, 1) if has_cameras else None,
        gallery_cameras=_column(gallery, 1) if has_cameras else None,
        self_index=torch.tensor(own, dtype=torch.int64) if draw(st.booleans()) or max(own, default=-1) >= 0 else None,
        same_camera=draw(st.sampled_from(SAME_CAMERA)) if has_cameras else "same_identity",
        junk_identities=draw(st.sampled_from([(-1,), (), (-1, 0)])),
        ties=draw(st.sampled_from(ties)),
    )


def _column(rows, place) -> Tensor:
    return torch.tensor([row[place] for row in rows], dtype=torch.int64)
