"""Exact search beside the lists of an index: the recall of the lists, and the numbers of both."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from reid_torchmetrics.functional.retrieval import Protocol, RetrievalResults, evaluate
from reid_torchmetrics.functional.retrieval.relevance import SIDES
from reid_torchmetrics.functional.world import ALONE
from reid_torchmetrics.tasks import IndexRecall, index_recall

from .embeddings import open_embeddings
from .evaluate import naming_bad_rows
from .sample_reading import read_sample_sets
from .sample_sets import SampleSets

_RECALL_AT = 10


def read_exact(arguments: SimpleNamespace, protocol: Protocol, extra_labels: Sequence[str]) -> SampleSets:
    """Read the embeddings of `--exact` with their labels, from the same files or from those of `--labels`.

    Raises:
        ValueError: files that are not those of queries and of a gallery.
    """
    query, *gallery = arguments.exact
    words = SimpleNamespace(**vars(arguments) | {"query": query, "gallery": gallery, "captions": None, "stream": None})
    sample_sets = read_sample_sets(words, protocol.missing_identities, extra_labels, needs_identities=True)
    if sample_sets.keys() != set(SIDES):
        raise ValueError(f"`--exact` must name files of the queries and of the gallery; got {query}, a single set.")
    return sample_sets


def evaluate_exact(sample_sets: SampleSets, protocol: Protocol, arguments: SimpleNamespace) -> RetrievalResults:
    """Evaluate exact search in the embeddings of `--exact`; they stay in mapped files.

    Equal scores keep the order of the gallery, because a list has one order, which does not depend on labels.
    """
    query, gallery = (sample_set.with_labels() for sample_set in sample_sets.values())
    with naming_bad_rows(sample_sets.files):
        return evaluate(
            query,
            gallery,
            protocol=protocol,
            similarity=arguments.similarity,
            packed=bool(arguments.packed),
            ties="stable",
        )


def find_recall(
    retrieved: Any, sample_sets: SampleSets, protocol: Protocol, arguments: SimpleNamespace, *, has_names: bool
) -> IndexRecall:
    """Return the recall of the lists; `has_names` says whether items are names of rows."""
    query_set = sample_sets.query
    gallery_set = sample_sets["gallery"]
    has_keys = isinstance(retrieved, dict)
    query, read_gallery = open_embeddings(
        query_set,
        gallery_set,
        ALONE,
        protocol=protocol,
        similarity=arguments.similarity,
        packed=bool(arguments.packed),
    )
    return index_recall(
        retrieved,
        query,
        (read_gallery(file.embeddings[:]) for file in gallery_set.files),
        k=_RECALL_AT if arguments.recall_k is None else arguments.recall_k,
        similarity=protocol.similarity_or(arguments.similarity),
        query_names=query_set.names.tolist() if has_keys and query_set.names is not None else None,
        gallery_names=gallery_set.names.tolist() if has_names and gallery_set.names is not None else None,
    )
