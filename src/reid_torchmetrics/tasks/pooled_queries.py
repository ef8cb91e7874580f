"""Images of one query, pooled into one before they are ranked."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._arrays import to_compute_device
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.evaluation import POOLED_QUERIES, Labels
from reid_torchmetrics.functional.retrieval.relevance import num_labels_of
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES, Rows
from reid_torchmetrics.tasks.places import Grouping


@torch.no_grad()
def pool_queries(query: Rows, labels: Labels, gallery: object) -> tuple[Rows, Labels]:
    """Return the mean (1/n) sum_i x_i / |x_i| of the queries with one identity and camera, with its labels.

    They are in the order of their first image. This is the multi-query setting of Market-1501 with average pooling;
    layumi's evaluation takes the mean of normalized features, too. The mean itself is not normalized: "cosine" does
    that. Every identity is pooled, -1 like any other. Sums are taken in float64, and returned in the dtype of `query`,
    float32 at least.

    Source: Zheng et al., "Scalable Person Re-identification: A Benchmark", ICCV 2015.

    Args:
        query: embeddings of all images of all queries; a zero vector counts as it is.
        labels: identities of the queries, and perhaps cameras; without them all images of an identity are pooled.
        gallery: as in `evaluate`.

    Raises:
        ValueError: no identities or no gallery, other labels of the queries, or embeddings that are not finite.
    """
    # Images that are pooled need one identity and camera each; they may differ in all other labels.
    obstacles = []
    if labels.query.get("identities") is None:
        obstacles.append("no `query_identities`")
    if gallery is None:
        obstacles.append("no `gallery`")
    obstacles.extend(f"`query_{name}`" for name in labels.query if name not in ("identities", "cameras"))
    if num_labels_of(labels.query):
        obstacles.append("a matrix of labels as `query_identities`")
    if labels.self_index is not None:
        obstacles.append("`self_index`")
    if obstacles:
        raise ValueError(
            "`multi_query` needs `query_identities` and a `gallery`, no labels but identities and cameras, and no"
            f" `self_index`; got {' and '.join(obstacles)}."
        )
    _checks.finite("query", query.non_finite())

    # One query for each distinct row of labels.
    columns = {}
    for name, values in labels.query.items():
        columns[name] = _checks.whole_labels(f"query_{name}", values, query.size, query.device).long()
    _, group = torch.stack(list(columns.values()), dim=1).unique(dim=0, return_inverse=True)
    groups = Grouping.of(group)
    labels_of_pooled = {name: values[groups.first] for name, values in columns.items()}
    return Rows([_mean(query.all(), groups)]), replace(labels, query=labels_of_pooled)


def _mean(query: Tensor, groups: Grouping) -> Float[Tensor, "pooled dim"]:
    """Return the mean of each group, a few coordinates at a time: in float64 all of them may not fit."""
    device = query.device
    query = to_compute_device(query)
    members, sizes = groups.members.to(query.device), groups.sizes.to(query.device)
    blocks = query.split(max(1, WALK_BYTES // (8 * query.shape[1])))
    norm = torch.cat([torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)[:, None] for rows in blocks])
    norm = norm.where(norm > 0, 1)[members]  # a zero vector stays zero

    means = []
    for columns in query.split(max(1, WALK_BYTES // (8 * max(1, len(query)))), dim=1):
        sums = segments.reduce(columns[members] / norm, "sum", sizes)
        means.append((sums / sizes[:, None]).to(query.dtype))
    return torch.cat(means, dim=1).to(device)


POOLED_QUERIES["mean"] = pool_queries
