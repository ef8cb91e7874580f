"""The files of a side; and `--stream`: a gallery in files that no machine holds, by `RankCounter`.

All labels are held, and of a stream the embeddings of the items that are listed for a query. The others are read some
MiB at a time, counted and dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, distributed

from reid_torchmetrics import _arrays, _progress, data
from reid_torchmetrics.functional.retrieval import RankCounter, RetrievalResults, evaluate_stream, find_relevance
from reid_torchmetrics.functional.world import ALONE, SentRows, World, concluding, exchange_rows
from reid_torchmetrics.metrics.base import DistributedWorld

from .processes import Share

Columns: TypeAlias = dict[str, _arrays.Array]

_NEED_ITEMS = ("ground_truth", "rerank", "multi_query", "draw", "report", "index", "groups", "distances", "scores")
_BLOCK_BYTES = 1 << 26


class Side:
    """The files of queries or of the gallery, with the labels of all their rows; without a gallery queries are both."""

    def __init__(self, files: list[data.SampleFile]) -> None:
        columns = [file.labels | ({} if file.roles is None else {"roles": file.roles}) for file in files]
        self.columns: Columns = {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
        self.files = [replace(file, labels={}, roles=None) for file in files]

    def __len__(self) -> int:
        return sum(len(file.embeddings) for file in self.files)

    def labels(self, rows: Any, prefix: str = "") -> dict[str, Any]:
        """The labels of some rows, without roles."""
        return {f"{prefix}{name}": values[rows] for name, values in self.columns.items() if name != "roles"}

    def rows_within(self, part: slice) -> Iterator[tuple[data.SampleFile, slice, slice]]:
        """Rows of each file in a part of all, in the file and in all; of no rows the first file, for its labels."""
        ends = pairwise(accumulate((len(file.embeddings) for file in self.files), initial=0))
        for file, (start, stop) in zip(self.files, ends, strict=True):
            rows = slice(max(part.start, start), min(part.stop, stop))
            if rows.start < rows.stop or (part.start == part.stop and start == 0):
                yield file, slice(rows.start - start, rows.stop - start), rows

    def blocks(self, chosen: _arrays.Array, part: slice, what: str) -> Iterator[tuple[_arrays.Array, Tensor]]:
        """The rows in a part of all that are chosen, and their embeddings, some MiB at a time."""
        files = [each for each in self.rows_within(part) if chosen[each[-1]].any()]
        for file, inside, rows in _progress.steps(files, what):
            (embeddings,) = _arrays.as_tensors(file.embeddings[inside])
            places, size = np.flatnonzero(chosen[rows]), max(1, _BLOCK_BYTES // embeddings[:1].nbytes)
            for block in np.split(places, range(size, len(places), size)):
                yield rows.start + block, embeddings[block]


def check_streamed(given: Mapping[str, Any]) -> None:
    """Raise if an option, a label or a kind of file that is given needs the items of the gallery, or none is there."""
    if needs := [name for name in _NEED_ITEMS if given.get(name)] + ["ties stable"] * (given.get("ties") == "stable"):
        raise ValueError(f"`--stream` must come without `{needs[0]}`, as it drops the items of the gallery; got both.")
    if not given["gallery"]:
        raise ValueError("`--stream` must come with the files of a gallery; got none.")


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
        is_listed[relevance.order if relevance.kept is None else relevance.kept[relevance.order]] = True
        others = partial(_total, world, gallery, ~is_listed)
        rules |= {name: options[name] for name in ("similarity", "ties", "max_bytes") if name in options}
        embeddings = torch.cat([*_arrays.as_tensors(*(file.embeddings[:] for file in query.files))])
        counter: Callable[..., RankCounter] = partial(RankCounter, embeddings, **rules)
        of_curve = {name: options[name] for name in ("max_rank",) if name in options}
        (none,) = _arrays.as_tensors(gallery.files[0].embeddings[:0])
        surveyor = counter(none, **gallery.labels(slice(0), "positive_"))
        # Options that do not fit are told before the gallery is read.
        evaluate_stream(surveyor, 0, protocol=protocol.changed({"empty_target_action": "skip"}), **of_curve)
        survey = others(surveyor.survey, "Surveying") if surveyor.similarity == "euclidean" else 0
        positives = _gathered(world, gallery, is_listed, none)
        ranked = counter(positives, **gallery.labels(is_listed, "positive_"), survey=survey)
        return evaluate_stream(ranked, others(ranked.count, "Counting"), protocol=protocol, **of_curve)


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
    sums = [world.guarded(lambda: sum(told))] * world.size
    if world.size > 1:
        distributed.all_gather_object(sums, sums[0])
    return sum(filter(None, sums))
