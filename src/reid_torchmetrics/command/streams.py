"""`--stream`: a gallery in files that no machine holds, by `RankCounter`.

All labels are held, and of a stream the embeddings of the items that are listed for a query. The others are read some
MiB at a time, counted and dropped.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _arrays
from reid_torchmetrics.functional.retrieval import RankCounter, RetrievalResults, evaluate_stream, find_relevance
from reid_torchmetrics.functional.retrieval.relevance import hash_names, merge_names, without_extra
from reid_torchmetrics.functional.retrieval.scores import read_embeddings
from reid_torchmetrics.functional.world import ALONE, SentRows, World, concluding, exchange_rows
from reid_torchmetrics.metrics.base import DistributedWorld

from .inputs import check_streamed
from .processes import Share
from .sides import Side


def streamed(sides: Mapping[str, Side], options: Mapping[str, Any], share: Share) -> RetrievalResults:
    """The results of a gallery that is read file by file, on all processes.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: labels, kinds of files or rules that need the items of the gallery.
    """
    query, gallery, protocol = sides["query"], sides["gallery"], options["protocol"]
    check_streamed(dict.fromkeys([*query.columns, *gallery.columns, gallery.files[0].kind, "gallery"], True))
    world = ALONE if share.size == 1 else DistributedWorld(None, torch.device("cpu"))
    with concluding(world):
        rules = query.labels(slice(None), "query_") | protocol.relevance_options
        relevance = find_relevance(**rules, **gallery.labels(slice(None), "gallery_"))
        is_listed = np.zeros(len(gallery), dtype=bool)
        kept = slice(None) if relevance.kept is None else relevance.kept.numpy()
        is_listed[kept] = relevance.listed_anywhere().numpy()
        if query.self_index is not None:
            rules["self_index"] = _places_among(is_listed, query.self_index)

        def others(count: Callable[..., Any], what: str) -> Any:
            def tell(block: Tensor, **labels: Any) -> Any:
                return count(read("gallery", block), **labels)

            return _total(world, gallery, ~is_listed, tell, what)

        rules |= {name: options[name] for name in ("max_bytes",) if name in options}
        chosen, ties = options.get("similarity"), protocol.ties_or(options.get("ties"))
        similarity = protocol.similarity_or(chosen)
        check_streamed({"ties": ties, "gallery": True})
        rules |= {"similarity": similarity, "ties": ties}
        read = partial(
            read_embeddings,
            similarity=similarity,
            packed=options.get("packed", False),
            may_be_codes=protocol.reads_codes and chosen is None,
        )
        embeddings = torch.cat([read("query", file.embeddings[:]) for file in query.files])
        counter: Callable[..., RankCounter] = partial(RankCounter, embeddings, **rules)
        of_curve = {name: options[name] for name in ("max_rank",) if name in options}
        (unread,) = _arrays.as_tensors(gallery.files[0].embeddings[:0])
        none = read("gallery", unread)
        # No item is there yet, so that no query has a place among them.
        unplaced = {"self_index": np.full(len(query), -1)} if "self_index" in rules else {}
        surveyor = counter(none, **gallery.labels(slice(0), "positive_"), **unplaced)
        # Options that do not fit are told before the gallery is read.
        if not (unplaced and protocol.leave_one_out):
            evaluate_stream(surveyor, 0, protocol=protocol.changed({"empty_target_action": "skip"}), **of_curve)
        survey = others(surveyor.survey, "Surveying") if surveyor.similarity == "euclidean" else 0
        positives = read("gallery", _gathered(world, gallery, is_listed, unread))
        ranked = counter(positives, **gallery.labels(is_listed, "positive_"), survey=survey)
        results = evaluate_stream(ranked, others(ranked.count, "Counting"), protocol=protocol, **of_curve)
        # The counter knows the names of the queries; all processes have read the labels of all files.
        names = hash_names(query.labels(slice(None)), protocol.relevance_options).names
        of_gallery = hash_names(gallery.labels(slice(None)), protocol.relevance_options).names
        for label, table in of_gallery.items():
            names[label] = merge_names([*names.get(label, {}).items(), *table.items()], label)
        return replace(results, label_names=without_extra(names) or None)


def _places_among(is_listed: _arrays.Array, self_index: _arrays.Array) -> _arrays.Array:
    """Places of the queries' own items among the listed items, or -1."""
    place = np.where(is_listed, is_listed.cumsum() - 1, -1)
    return np.where(self_index < 0, -1, place[self_index])


def _gathered(world: World, gallery: Side, chosen: _arrays.Array, like: Tensor) -> Tensor:
    """The embeddings of the rows that are chosen, `like` others; each process reads a part."""
    parts = [Share(process, world.size).of(len(gallery)) for process in range(world.size)]
    blocks = gallery.blocks(chosen, parts[world.process], "Reading")
    sent = SentRows(lambda: (block for _, block in blocks), like.shape[1:], like.dtype)
    return exchange_rows(world, [int(chosen[part].sum()) for part in parts], sent)[0]


def _total(world: World, gallery: Side, chosen: _arrays.Array, tell: Callable[..., Any], what: str) -> Any:
    """The sum of what blocks of the rows that are chosen tell; each process reads a part."""
    blocks = gallery.blocks(chosen, Share(world.process, world.size).of(len(gallery)), what)
    told = (tell(block, key=int(rows[0]), **gallery.labels(rows)) for rows, block in blocks)
    return _sum_over_processes(world, lambda: sum(told))


def _sum_over_processes(world: World, work: Callable[[], Any]) -> Any:
    """Do local work, and sum the `Counts` or `Survey`s that it returns over all processes; 0 stands for no blocks.

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
