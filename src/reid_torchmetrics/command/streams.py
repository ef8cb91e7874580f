"""`--stream`: a gallery in files that no machine holds, by `RankCounter`.

All labels are held, and of a stream the embeddings of the items that are listed for a query. The others are read some
MiB at a time, counted and dropped.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _arrays
from reid_torchmetrics.diagnosis import Diagnosis, collecting
from reid_torchmetrics.functional.retrieval import RetrievalResults, find_relevance
from reid_torchmetrics.functional.retrieval.relevance import Relevance, Vocabulary, hash_names
from reid_torchmetrics.functional.world import SentRows, World, concluding, exchange_rows
from reid_torchmetrics.tasks import RankCounter, evaluate_stream

from .inputs import check_streamed
from .processes import Share
from .sample_sets import SampleSet, SampleSets, open_embeddings


def evaluate_streamed_gallery(sample_sets: SampleSets, options: Mapping[str, Any], share: Share) -> RetrievalResults:
    """Return the results of a gallery that is read file by file, on all processes.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: labels, kinds of files or rules that need the items of the gallery.
    """
    labels = [*sample_sets.query.columns, *sample_sets["gallery"].columns, sample_sets.query.kind, "gallery"]
    check_streamed(dict.fromkeys(labels, True))
    world = share.world()
    with concluding(world):
        return _evaluate(sample_sets, options, world)


def _evaluate(sample_sets: SampleSets, options: Mapping[str, Any], world: World) -> RetrievalResults:
    """Count the blocks of the gallery, and evaluate the counts."""
    query_set = sample_sets.query
    gallery_set = sample_sets["gallery"]
    protocol = options["protocol"]
    rules = query_set.labels(slice(None), "query_") | protocol.relevance_options
    relevance = find_relevance(**rules, **gallery_set.labels(slice(None), "gallery_"))
    is_listed = _find_listed(relevance, len(gallery_set))
    if sample_sets.self_index is not None:
        places = np.where(is_listed, is_listed.cumsum() - 1, -1)
        rules["self_index"] = np.where(sample_sets.self_index < 0, -1, places[sample_sets.self_index])
    if "max_bytes" in options:
        rules["max_bytes"] = options["max_bytes"]
    similarity = options.get("similarity")
    rules["similarity"] = protocol.similarity_or(similarity)
    rules["ties"] = protocol.ties_or(options.get("ties"))
    check_streamed({"ties": rules["ties"], "gallery": True})
    packed = options.get("packed", False)
    query_embeddings, read_gallery = open_embeddings(
        query_set, gallery_set, world, protocol=protocol, similarity=similarity, packed=packed
    )
    curve_options = {"max_rank": options["max_rank"]} if "max_rank" in options else {}

    # A counter without items refuses options that do not fit, before the gallery is read.
    (no_items,) = _arrays.as_tensors(gallery_set.files[0].embeddings[:0])
    first_rules = dict(rules)
    if "self_index" in rules:
        first_rules["self_index"] = np.full(len(query_set), -1)
    first_rules |= gallery_set.labels(slice(0), "positive_")
    first_counter = RankCounter(query_embeddings, read_gallery(no_items), **first_rules)
    if "self_index" not in rules or not protocol.leave_one_out:
        skipping_protocol = protocol.with_options({"empty_target_action": "skip"})
        with collecting(Diagnosis()):  # nothing has a positive yet
            evaluate_stream(first_counter, 0, protocol=skipping_protocol, **curve_options)

    # Statistics of the whole gallery, then the listed items, then the counts of all others.
    statistics: Any = 0
    if first_counter.similarity == "euclidean":
        statistics = _sum_over_blocks(world, gallery_set, ~is_listed, read_gallery, first_counter.statistics, "Summing")
    positives = read_gallery(_read_listed(world, gallery_set, is_listed, no_items))
    positive_labels = gallery_set.labels(is_listed, "positive_")
    counter = RankCounter(query_embeddings, positives, **positive_labels, statistics=statistics, **rules)
    counts = _sum_over_blocks(world, gallery_set, ~is_listed, read_gallery, counter.count, "Counting")
    results = evaluate_stream(counter, counts, protocol=protocol, **curve_options)

    # The counter knows the names of the queries alone.
    names = _merge_names(query_set, gallery_set, protocol.relevance_options)
    return replace(results, label_names=names.for_results() or None)


def _merge_names(query_set: SampleSet, gallery_set: SampleSet, rules: Mapping[str, Any]) -> Vocabulary:
    """Return the names of labels in both sets; all processes have read the labels of all files."""
    names = hash_names(query_set.labels(slice(None)), rules).names
    gallery_names = hash_names(gallery_set.labels(slice(None)), rules).names
    for label, table in gallery_names.items():
        names.add(label, table.values(), table)
    return names


def _find_listed(relevance: Relevance, num_items: int) -> _arrays.Array:
    """Return which items of the gallery are listed for some query; junk items are not."""
    is_listed = np.zeros(num_items, dtype=bool)
    kept = slice(None) if relevance.kept is None else relevance.kept.numpy()
    if relevance.shared is not None:
        is_listed[kept] = relevance.shared.are_shared().numpy()
    else:
        is_listed_of_kept = np.zeros(relevance.num_kept, dtype=bool)
        is_listed_of_kept[relevance.order.numpy()] = True
        is_listed[kept] = is_listed_of_kept
    return is_listed


def _read_listed(world: World, gallery_set: SampleSet, is_listed: _arrays.Array, no_items: Tensor) -> Tensor:
    """Read the embeddings of the listed items on all processes; each process reads a part of the files.

    `no_items` are embeddings [0, D], with the dtype of all.
    """
    parts = [Share(process, world.size).part_of(len(gallery_set)) for process in range(world.size)]
    blocks = gallery_set.blocks(is_listed, parts[world.process], "Reading")
    sent = SentRows(lambda: (embeddings for _, embeddings in blocks), no_items.shape[1:], no_items.dtype)
    (embeddings,) = exchange_rows(world, [int(is_listed[part].sum()) for part in parts], sent)
    return embeddings


def _sum_over_blocks(
    world: World,
    gallery_set: SampleSet,
    is_selected: _arrays.Array,
    read: Callable[[Tensor], Tensor],
    count: Callable[..., Any],
    title: str,
) -> Any:
    """Sum the counts of the blocks of selected items over all processes; each process reads a part of the files."""
    part = Share(world.process, world.size).part_of(len(gallery_set))

    def count_blocks() -> Any:
        total: Any = 0
        for rows, embeddings in gallery_set.blocks(is_selected, part, title):
            total = total + count(read(embeddings), key=int(rows[0]), **gallery_set.labels(rows))
        return total

    return _sum_over_processes(world, count_blocks)


def _sum_over_processes(world: World, work: Callable[[], Any]) -> Any:
    """Do local work, and sum the `Counts` or `GalleryStatistics` that it returns, over all processes; 0 is no block.

    Raises:
        DistributedMetricError: an error on some process.
    """
    if world.size == 1:
        return work()

    def encode() -> tuple[Tensor, list[int]]:
        data = bytearray(pickle.dumps(work()))
        return torch.frombuffer(data, dtype=torch.uint8), [len(data)]

    # `all_gather_object` of PyTorch would do this, but where one process fails in it the others wait.
    encoded, table = world.guarded_all_gather(encode)
    sizes = [size for (size,) in table]
    (received,) = exchange_rows(world, sizes, SentRows(lambda: [encoded], dtype=torch.uint8))

    def decode() -> Any:
        sums = [pickle.loads(part.numpy().data) for part in received.split(sizes)]  # noqa: S301 - of these processes
        return sum(sums)

    return world.guarded(decode)
