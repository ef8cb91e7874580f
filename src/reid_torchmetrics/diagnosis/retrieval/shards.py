"""Facts about the samples of all processes: the roles of their batches, and samples that come again.

Samples come again after an evaluation that did not end with `reset`, on their process with another embedding, or on
several processes. Those that several processes hold are recognized by their embeddings where there is no `index`: a
sampler repeats the first samples of a data set at the end of the last processes, or samples were gathered by hand.
Samples 0 to 6, dealt out to two processes by `DistributedSampler`, by Accelerate in batches of two, and gathered:

    process 0    0 2 4 6       0 1 4 5       0 1 2 3 4 5 6 0
    process 1    1 3 5 0       2 3 6 0       0 1 2 3 4 5 6 0

On the left and in the middle a run of samples at the end of one process is the beginning of another. It may come from
another batch, and differ by rounding; gathered samples have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float32, Int
from torch import Tensor

from reid_torchmetrics.diagnosis.signs import LEAST_GATHERED, count_forgotten
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.evaluation import Updates
from reid_torchmetrics.functional.retrieval.relevance import RELEVANCE_LABELS, pack_columns, relevance_labels
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES
from reid_torchmetrics.functional.retrieval.sharding import GALLERY, GROUPED, QUERY, Numbered, Samples, Shard
from reid_torchmetrics.functional.world import World, mixed

_NUM_FEATURES = 8  # compared entries of an embedding
_ALIKE = 1e-2  # the same picture in another batch, perhaps in half precision
_MOST_COMPARED = 1 << 12  # samples of a process that are searched for two of one identity
_AT_A_TIME = 1 << 16  # samples that are compared in float64 at once
_MOST_COUNTED = 64  # samples whose different entries are counted
_LEAST_VALUES = 2  # different entries per sample; one-hot vectors and codes of bits have fewer
_MOST_COPIES = 0.01  # share of a process's samples; with more, its ends may be copies of each other by chance
_LENGTH_OF_ROLE = 2 + _NUM_FEATURES // 2
_LENGTH_OF_RUN = 3 + _NUM_FEATURES // 2
_CLOSE = 0.1  # share of the norm: half precision rounds by less, and a step of training or another image changes more


class UpdateFacts(NamedTuple):
    """Facts about the batches of all processes."""

    num_forgotten: int = 0
    """samples since the last evaluation, if they have the labels of as many samples before it; 0 otherwise"""
    has_mixed_roles: bool = False
    """whether some batches have `is_query`, and some do not"""


def read_updates(updates: Updates | None, world: World) -> UpdateFacts:
    """Return the facts about the batches of all processes, which all must call; None stands for no batches to look at.

    All processes have batches to look at, or none has.
    """
    if updates is None:
        return UpdateFacts()

    def count() -> tuple[None, list[int]]:
        return None, [_count_forgotten(updates), "queries" in updates.kinds, "both" in updates.kinds]

    _, table = world.guarded_all_gather(count)
    num_forgotten, have_queries, have_both_roles = map(sum, zip(*table, strict=True))
    return UpdateFacts(num_forgotten, have_queries > 0 < have_both_roles)


def _count_forgotten(updates: Updates) -> int:
    """Count the samples that repeat those of the last evaluation, where no `index` tells."""
    batches = updates.batches
    if batches["index"]:
        return 0
    labels = [batches[name] for name in RELEVANCE_LABELS if name != "groups"]
    groups = []
    if batches["groups"]:
        # Batches without groups are represented by their roles.
        batches_of_groups = iter([batch for batch in batches["groups"] if len(batch)])
        for roles in batches["roles"]:
            has_groups = bool((roles[:1] & GROUPED).any())
            groups.append(next(batches_of_groups, roles) if has_groups else roles)
    return count_forgotten(batches["roles"], groups, *labels)


class SharedSamples(NamedTuple):
    """Facts about samples that came again, on one process or on several."""

    num_changed: int = 0
    """repetitions of a sample on its process with another embedding, on all processes"""
    are_gathered: bool = False
    """whether two processes hold the same samples, without `index`"""
    are_padded: bool = False
    """whether the last samples of a process are the first of the first process, without `index`"""


def compare_shards(shard: Shard, world: World) -> SharedSamples:
    """Compare the samples of all processes, which all must call."""

    def read() -> tuple[_SameSamples | None, list[int]]:
        same = None
        if world.size > 1 and shard.samples.index is None:  # on all processes alike
            same = _SameSamples.of(shard.samples)
        return same, [_count_changed(shard), *([] if same is None else same.signs())]

    same, table = world.guarded_all_gather(read)
    num_changed = sum(num_changed for num_changed, *_ in table)
    signs = [signs for _, *signs in table]
    if same is None:
        return SharedSamples(num_changed)
    _, runs = world.guarded_all_gather(lambda: (None, same.run(world.process, signs[0])))
    return same.judge(world, signs, runs)


def _count_changed(shard: Shard) -> int:
    """Count the repetitions with another embedding than the sample that counts."""
    samples = shard.samples
    if samples.index is None:
        return 0
    step = max(1, WALK_BYTES // (8 * samples.dimension))
    changed = []
    for role, counted in ((QUERY, shard.query), (GALLERY, shard.gallery)):
        if len(counted) == int((samples.roles & role > 0).sum()):  # nearly always
            continue
        numbered = Numbered.of(samples, role)
        repeated_rows = samples.rows(numbered.repeated)
        first_rows = samples.rows(numbered.first)
        for part in segments.ranges(len(numbered.repeated), step):
            first = first_rows.read(part, torch.float64)
            distance = (repeated_rows.read(part, torch.float64) - first).norm(dim=1)
            is_changed = distance > _CLOSE * first.norm(dim=1)
            changed.append(numbered.repeated[part][is_changed])
    no_samples = shard.query[:0]
    return len(torch.cat([no_samples, *changed]).unique())  # leave-one-out samples have both roles


@dataclass(frozen=True)
class _Arrivals:
    """The samples of a role on this process, in the order of their batches."""

    labels: Int[Tensor, " samples"]
    """one hash for all labels of a sample"""
    features: Float32[Tensor, "samples 8"]
    """some entries of the embedding"""

    def signs(self) -> list[int]:
        """Return a hash of all samples in any order, and the first sample, for the other processes."""
        if not len(self.labels):
            return [0] * _LENGTH_OF_ROLE
        if len(self.labels) < LEAST_GATHERED:
            return [0, *self.at(0)]
        hashes = self.labels
        for column in self.features.view(torch.int32).unbind(1):
            hashes = mixed(hashes, column.long())
        return [int(hashes.sum()), *self.at(0)]  # a sum modulo 2^64 does not depend on the order

    def at(self, place: int) -> list[int]:
        """Return the label of a sample and its features, two to a number."""
        return [int(self.labels[place]), *self.features[place].view(torch.int64).tolist()]

    def has_copies(self, length: int) -> bool:
        """Return whether the data set itself has copies, among the samples before the last `length`."""
        features = self.features[: len(self.features) - length][:_MOST_COMPARED]
        num_copies = len(features) - len(features.unique(dim=0))
        return num_copies > _MOST_COPIES * len(features)

    def find(self, label: int, features: Sequence[int]) -> Int[Tensor, " places"]:
        """Return the places of the samples with these features, but for rounding; none if one has another label.

        `features` are numbers as `at` returns them. If samples of several labels have the same embedding, it shows
        nothing, and no place is returned.
        """
        target = torch.tensor(features, device=self.labels.device).view(torch.float32)
        is_same = _are_close(self.features, target) & target.any()
        places = is_same.nonzero()[:, 0]
        if bool((self.labels[places] == label).all()):
            return places
        return places[:0]


@dataclass(frozen=True)
class _SameSamples:
    """Features that show whether this process holds samples of other processes."""

    size: int
    """number of all samples"""
    arrivals: tuple[_Arrivals, _Arrivals]
    """the queries, and the gallery items"""
    can_tell: bool
    """whether two samples of one identity have different embeddings, and entries have many values

    Otherwise equal embeddings show nothing: a constant model gives all samples one embedding.
    """

    @classmethod
    def of(cls, samples: Samples) -> _SameSamples:
        """Read the features of a process's samples."""
        step = max(1, samples.dimension // _NUM_FEATURES)
        entries = torch.cat([block[:, ::step][:, :_NUM_FEATURES].float() for block in samples.blocks])
        features = torch.nn.functional.pad(entries, (0, _NUM_FEATURES - entries.shape[1]))
        labels = _hash_rows(pack_columns(relevance_labels(samples.labels), slice(None)))
        is_query = samples.roles & QUERY > 0
        is_gallery = samples.roles & GALLERY > 0
        queries = _Arrivals(labels[is_query], features[is_query])
        gallery = _Arrivals(labels[is_gallery], features[is_gallery])

        if "identities" in samples.labels:
            identities = _hash_rows(pack_columns({"identities": samples.labels["identities"]}, slice(None)))
        else:
            identities = torch.zeros_like(labels)  # all samples count as one identity
        order = identities[:_MOST_COMPARED].argsort(stable=True)
        is_same = identities[order[1:]] == identities[order[:-1]]
        differs = ~_are_close(entries[order[1:]], entries[order[:-1]])
        counted = entries[:_MOST_COUNTED]
        can_tell = bool((is_same & differs).any()) and len(counted.unique()) >= _LEAST_VALUES * len(counted)
        return cls(len(samples), (queries, gallery), can_tell)

    def signs(self) -> list[int]:
        """Return numbers for the other processes."""
        queries, gallery = self.arrivals
        return [self.size, int(self.can_tell), *queries.signs(), *gallery.signs()]

    def run(self, process: int, signs: Sequence[int]) -> list[int]:
        """Find the samples at the end of this process that may be the first of process 0, given its `signs`.

        Returns:
            The number of samples in this run, their role, and the last one; zeros where there is none. If both roles
            have such a run, it is the shorter one.
        """
        lengths = [0, 0]  # of the runs of both roles
        for role, arrivals in enumerate(self.arrivals):
            _, label, *features = _signs_of_role(signs, role)
            places = arrivals.find(label, features).tolist()
            if process == 0:
                places = places[1:]  # without the first sample itself
            if len(places) != 1:  # several places show nothing: all samples of an identity may have one embedding
                continue
            lengths[role] = len(arrivals.labels) - places[0]
        if not any(lengths) or any(map(_Arrivals.has_copies, self.arrivals, lengths)):
            return [0] * _LENGTH_OF_RUN
        length, role = min((length, role) for role, length in enumerate(lengths) if length)
        return [length, role, *self.arrivals[role].at(-1)]

    def judge(self, world: World, signs: Sequence[Sequence[int]], runs: Sequence[Sequence[int]]) -> SharedSamples:
        """Decide whether processes hold the same samples, given the `signs` and the `run` of each.

        All processes must call; only process 0 compares the runs.
        """
        if not any(can_tell for _, can_tell, *_ in signs):
            return SharedSamples()
        are_gathered = False
        for role in range(len(self.arrivals)):
            totals = [_signs_of_role(numbers, role)[0] for numbers in signs]
            totals = [total for total in totals if total]  # sums of hashes, 0 where a process has no samples
            are_gathered |= len(set(totals)) < len(totals)
        are_padded = False
        if len({size for size, *_ in signs}) == 1 and any(length for length, *_ in runs):
            are_padded = world.guarded(lambda: world.process == 0 and any(map(self._begins_with, runs)))
        return SharedSamples(are_gathered=are_gathered, are_padded=are_padded)

    def _begins_with(self, run: Sequence[int]) -> bool:
        """Return whether the last sample of a run is at the same place among the first samples of this process."""
        length, role, label, *features = run
        return length > 0 and length - 1 in self.arrivals[role].find(label, features).tolist()


def _hash_rows(columns: Int[Tensor, "samples columns"]) -> Int[Tensor, " samples"]:
    """Return one hash for all columns of each sample."""
    hashes = torch.zeros_like(columns[:, 0])
    for column in columns.unbind(1):
        hashes = mixed(hashes, column)
    return hashes


def _signs_of_role(signs: Sequence[int], role: int) -> Sequence[int]:
    """Return the part of a process's signs about one role."""
    start = 2 + role * _LENGTH_OF_ROLE
    return signs[start : start + _LENGTH_OF_ROLE]


def _are_close(values: Float32[Tensor, "samples entries"], targets: Float32[Tensor, "... entries"]) -> Tensor:
    """Mark the samples with the values of their target, but for rounding."""
    is_close = []
    # A few samples at a time: there may be millions, on a disk.
    parts = zip(values.split(_AT_A_TIME), targets.expand_as(values).split(_AT_A_TIME), strict=True)
    for value, target in parts:
        expected = target.double()
        distance = (value.double() - expected).norm(dim=-1)
        is_close.append(distance <= _ALIKE * expected.norm(dim=-1))
    return torch.cat(is_close)
