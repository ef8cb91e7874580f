"""Repetitions: several samples with the same `index` and role, and one that counts.

Of several with one number the first counts, of several processes the first of the lowest process:

    process          0             1
    index         4  7  4       7  9
    identity      1  2  1       2  3
    counted       4  7             9      the second 4 and the 7 of process 1 are repetitions

A repetition has the labels of the sample that counts. Its embedding may differ by the rounding of another batch; an
embedding that differs by more is no repetition of a sampler.

Where no `index` tells, samples that several processes hold are noticed: a sampler repeats the first samples of a data
set at the end of the last processes, or samples were gathered by hand. Samples 0 to 6, dealt out to two processes by
`DistributedSampler`, by Accelerate in batches of two, and gathered:

    process 0    0 2 4 6       0 1 4 5       0 1 2 3 4 5 6 0
    process 1    1 3 5 0       2 3 6 0       0 1 2 3 4 5 6 0

On the left and in the middle a run of samples at the end of one process is the beginning of another. It may come from
another batch, and differ by rounding; gathered samples have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Float32, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.fingerprints import LEAST_GATHERED, mixed, owners
from reid_torchmetrics.functional.retrieval.ranking import places_of_true
from reid_torchmetrics.functional.retrieval.relevance import LABELS, deciding, packed, unpacked
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES
from reid_torchmetrics.functional.world import World

from .samples import GALLERY, QUERY, Samples

_NUM_FEATURES = 8  # entries of an embedding that are compared
_ALIKE = 1e-2  # the same picture in another batch, perhaps in half precision
_MOST_COMPARED = 1 << 12  # samples of a process, searched for two of one identity
_AT_A_TIME = 1 << 16  # samples that are compared in float64
_MOST_COUNTED = 64  # samples with entries that are counted
_LEAST_VALUES = 2  # different entries a sample; one-hot vectors and codes of bits have fewer
_MOST_COPIES = 0.01  # of the samples of a process; with more, its ends may be copies of each other by chance
_LENGTH_OF_ROLE = 2 + _NUM_FEATURES // 2
_LENGTH_OF_RUN = 3 + _NUM_FEATURES // 2
NUM_SIGNS = 2 + 2 * _LENGTH_OF_ROLE
"""numbers of `SameSamples.signs`"""

_CLOSE = 0.1  # of the norm: half precision rounds by less, and a step of training or another image changes more


class HeldTwice(NamedTuple):
    """Samples that several processes hold, without an `index` that tells it."""

    are_gathered: bool = False
    """whether two processes hold the same samples"""
    are_padded: bool = False
    """whether the last samples of a process are the first of the first process"""


class Numbered(NamedTuple):
    """The samples of one role on one process."""

    counted: Int[Tensor, " counted"]
    """positions, ascending: the first sample of each `index`"""
    repeated: Int[Tensor, " repeated"]
    """positions of the others"""
    first: Int[Tensor, " repeated"]
    """for each of these, the position of the one that counts"""

    @classmethod
    def of(cls, samples: Samples, role: int) -> Numbered:
        """Look for repetitions among the samples of a role.

        Raises:
            ValueError: samples with the same `index` have other labels.
        """
        positions = places_of_true(samples.roles & role > 0)
        none = positions[:0]
        if samples.index is None or not len(positions):
            return cls(positions, none, none)
        counted, repeated, first = (positions[places] for places in _split(samples.index[positions]))
        if not len(repeated):  # nearly always
            return cls(positions, none, none)
        _check_same(samples, _labels(samples, first), _labels(samples, repeated))
        return cls(counted.sort().values, repeated, first)


def changed(samples: Samples, roles: Sequence[Numbered]) -> int:
    """Number of repetitions with another embedding than the sample that counts."""
    if not any(len(each.repeated) for each in roles):  # nearly always
        return 0
    step = max(1, WALK_BYTES // (8 * samples.dimension))
    positions = []
    for each in roles:
        again, first = samples.rows(each.repeated), samples.rows(each.first)
        for part in segments.ranges(len(each.repeated), step):
            rows = first.read(part, torch.float64)
            distance = (again.read(part, torch.float64) - rows).norm(dim=1)
            positions.append(each.repeated[part][distance > _CLOSE * rows.norm(dim=1)])
    return len(torch.cat(positions).unique())  # leave-one-out samples have both roles


def lowest_of_each(world: World, samples: Samples, roles: Sequence[Tensor]) -> list[Tensor]:
    """Keep of some positions, of distinct `index` for each role, the samples that no lower process has.

    A number has an owner, the process that it is hashed to: it is sent the labels of all samples of that number,
    compares them, and answers which of them is of the lowest process. So each process compares its share of the
    numbers, and there are as many collectives for any number of processes.

    Raises:
        DistributedMetricError: an error on some process, or samples with the same `index` have other labels.
    """
    if samples.index is None or world.size == 1:
        return [*roles]

    def prepare() -> tuple[Tensor, Tensor, Tensor, Tensor]:
        labels = torch.cat([_labels(samples, positions) for positions in roles]).to(world.device)
        owner_and_role = owners(world, labels[:, 0]) * len(roles) + _role_of([*map(len, roles)], labels.device)
        order = owner_and_role.argsort()
        sizes = owner_and_role.bincount(minlength=world.size * len(roles)).view(world.size, -1)
        return order, labels[order], sizes, torch.empty_like(sizes)

    def receive() -> tuple[list[int], list[int], Tensor]:
        """Make room for the labels that this process owns."""
        num_sent, num_owned = (each.sum(1).tolist() for each in (sizes, sizes_owned))
        return num_sent, num_owned, sent.new_empty((sum(num_owned), sent.shape[1]))

    def compare() -> tuple[Tensor, Tensor]:
        counts, answer = (torch.ones(len(rows), dtype=torch.uint8, device=rows.device) for rows in (owned, sent))
        role_of = _role_of(sizes_owned.flatten().tolist(), owned.device) % len(roles)
        for role in range(len(roles)):
            labels, places = owned[role_of == role], (role_of == role).nonzero()[:, 0]
            _, repeated, first = _split(labels[:, 0])  # of the processes in their order
            _check_same(samples, labels[first], labels[repeated])
            counts[places[repeated]] = 0
        return counts, answer

    order, sent, sizes, sizes_owned = world.guarded(prepare)
    world.all_to_all(sizes, sizes_owned, [1] * world.size, [1] * world.size)
    num_sent, num_owned, owned = world.guarded(receive)
    world.all_to_all(sent, owned, num_sent, num_owned)
    counts, answer = world.guarded(compare)
    world.all_to_all(counts, answer, num_owned, num_sent)
    is_counted = torch.empty_like(answer, dtype=torch.bool)
    is_counted[order] = answer > 0
    parts = is_counted.to(samples.device).split([*map(len, roles)])
    return [positions[part] for positions, part in zip(roles, parts, strict=True)]


def _role_of(sizes: Sequence[int], device: torch.device) -> Int[Tensor, " samples"]:
    return segments.numbers(torch.tensor(sizes, device=device))


def _split(numbers: Int[Tensor, " samples"]) -> tuple[Tensor, Tensor, Tensor]:
    """Places of the first of each number, of the others, and for each of these of its first."""
    # Sorted stably, the first sample of each number comes first.
    numbers, order = numbers.sort(stable=True)
    is_first = torch.ones_like(numbers, dtype=torch.bool)
    is_first[1:] = numbers[1:] != numbers[:-1]
    counted = order[is_first]
    if len(counted) == len(order):  # nearly always
        return counted, order[:0], order[:0]
    return counted, order[~is_first], counted[is_first.cumsum(0) - 1][~is_first]


def _labels(samples: Samples, positions: Int[Tensor, " chosen"]) -> Int[Tensor, "chosen labels"]:
    """The number of a sample, then the labels that decide relevance."""
    return packed({"index": samples.labels["index"]} | deciding(samples.labels), positions)


def _check_same(samples: Samples, first: Tensor, again: Tensor) -> None:
    rows = (first != again).any(1).nonzero()[:, 0]
    if len(rows):
        came = " and for ".join(_described(samples, labels[rows[:1], 1:]) for labels in (first, again))
        more = len(first[rows, 0].unique()) - 1
        raise ValueError(
            f"`index` must be the number of a sample in its data set, the same only for repetitions of the sample; got"
            f" {int(first[rows[0], 0])} for {came}{f', and {more} more such numbers' if more else ''}."
        )


def _described(samples: Samples, labels: Int[Tensor, "1 labels"]) -> str:
    values = unpacked(labels, deciding(samples.labels))
    return " at ".join(f"{LABELS[name].singular} {value[0].tolist()}" for name, value in values.items())


@dataclass(frozen=True)
class _Arrivals:
    """The samples of a role on this process, in the order of their batches."""

    labels: Int[Tensor, " samples"]
    """a number for all labels of a sample"""
    features: Float32[Tensor, "samples 8"]
    """some entries of the embedding"""

    def signs(self) -> list[int]:
        """A sum over all samples, and the first sample, for the other processes."""
        if not len(self.labels):
            return [0] * _LENGTH_OF_ROLE
        if len(self.labels) < LEAST_GATHERED:
            return [0, *self.at(0)]
        numbers = self.labels
        for column in self.features.view(torch.int32).unbind(1):
            numbers = mixed(numbers, column.long())
        return [int(numbers.sum()), *self.at(0)]  # modulo 2^64, so in any order

    def at(self, place: int) -> list[int]:
        """The label of a sample and its features, two to a number."""
        return [int(self.labels[place]), *self.features[place].view(torch.int64).tolist()]

    def has_copies(self, length: int) -> bool:
        """Whether the data set itself has copies, among the samples before the last `length`."""
        others = self.features[: len(self.features) - length][:_MOST_COMPARED]
        return len(others) - len(others.unique(dim=0)) > _MOST_COPIES * len(others)

    def find(self, label: int, features: Sequence[int]) -> Int[Tensor, " places"]:
        """Places of the samples with these features, as `at` gives them, but for rounding; none if a label differs.

        A model that gives samples of several labels one embedding has no such places.
        """
        wanted = torch.tensor(features, device=self.labels.device).view(torch.float32)
        places = (_are_close(self.features, wanted) & wanted.any()).nonzero()[:, 0]
        return places if bool((self.labels[places] == label).all()) else places[:0]


@dataclass(frozen=True)
class SameSamples:
    """Features that show whether this process holds samples of other processes."""

    size: int
    """number of all samples"""
    arrivals: tuple[_Arrivals, _Arrivals]
    """the queries, and the gallery items"""
    can_tell: bool
    """whether some two samples of one identity have different embeddings, and entries have many values"""

    @classmethod
    def of(cls, samples: Samples) -> SameSamples:
        """Take the features of a process."""
        step = max(1, samples.dimension // _NUM_FEATURES)
        entries = torch.cat([block[:, ::step][:, :_NUM_FEATURES].float() for block in samples.blocks])
        features = torch.nn.functional.pad(entries, (0, _NUM_FEATURES - entries.shape[1]))
        columns = packed(deciding(samples.labels), slice(None)).unbind(1)
        labels = reduce(mixed, columns, torch.zeros_like(columns[0]))
        queries, gallery = (samples.roles & role > 0 for role in (QUERY, GALLERY))
        arrivals = _Arrivals(labels[queries], features[queries]), _Arrivals(labels[gallery], features[gallery])
        # Otherwise equal samples say nothing: under a constant model all are equal.
        identities = torch.zeros_like(labels)  # without, all samples are alike
        if "identities" in samples.labels:
            columns = packed({"identities": samples.labels["identities"]}, slice(None)).unbind(1)
            identities = reduce(mixed, columns, identities)
        order = identities[:_MOST_COMPARED].argsort(stable=True)
        is_same = identities[order[1:]] == identities[order[:-1]]
        differs, counted = ~_are_close(entries[order[1:]], entries[order[:-1]]), entries[:_MOST_COUNTED]
        can_tell = bool((is_same & differs).any()) and len(counted.unique()) >= _LEAST_VALUES * len(counted)
        return cls(len(samples), arrivals, can_tell)

    def signs(self) -> list[int]:
        """Numbers for the other processes."""
        queries, gallery = self.arrivals
        return [self.size, int(self.can_tell), *queries.signs(), *gallery.signs()]

    def run(self, process: int, signs: Sequence[int]) -> list[int]:
        """The shorter run at the end of this process that may be the beginning of process 0, given its `signs`.

        Its length, role, and last sample; zeros where there is none.
        """
        run = [0] * _LENGTH_OF_RUN
        for role, arrivals in enumerate(self.arrivals):
            _, label, *features = _of_role(signs, role)
            places = arrivals.find(label, features).tolist()
            places = places[1:] if process == 0 else places  # but for the first sample itself
            # Several places tell nothing: all samples of an identity may have one embedding.
            length = len(arrivals.labels) - places[0] if len(places) == 1 else 0
            if length and not 0 < run[0] <= length and not arrivals.has_copies(length):
                run = [length, role, *arrivals.at(-1)]
        return run

    def judge(self, world: World, signs: Sequence[Sequence[int]], runs: Sequence[Sequence[int]]) -> HeldTwice:
        """Tell whether processes hold the same samples, given the `signs` and the `run` of each.

        All processes must call; the first one alone knows of runs.
        """
        if not any(can_tell for _, can_tell, *_ in signs):
            return HeldTwice()
        are_gathered = False
        for role in range(len(self.arrivals)):
            # Sums of hashes, 0 for no samples.
            totals = [_of_role(each, role)[0] for each in signs if _of_role(each, role)[0]]
            are_gathered |= len(set(totals)) < len(totals)
        are_padded = False
        if len({size for size, *_ in signs}) == 1 and any(length for length, *_ in runs):
            are_padded = world.guarded(lambda: world.process == 0 and any(map(self._begins_with, runs)))
        return HeldTwice(are_gathered=are_gathered, are_padded=are_padded)

    def _begins_with(self, run: Sequence[int]) -> bool:
        """Whether a run is the beginning of this process: whether it ends alike."""
        length, role, label, *features = run
        return length > 0 and length - 1 in self.arrivals[role].find(label, features).tolist()


def _of_role(signs: Sequence[int], role: int) -> Sequence[int]:
    """The signs of the samples of a role."""
    return signs[2 + role * _LENGTH_OF_ROLE :][:_LENGTH_OF_ROLE]


def _are_close(first: Float32[Tensor, "samples entries"], others: Float32[Tensor, "... entries"]) -> Tensor:
    # A few samples at a time: there may be millions, on a disk.
    parts = zip(first.split(_AT_A_TIME), others.expand_as(first).split(_AT_A_TIME), strict=True)
    pairs = ((part.double(), other.double()) for part, other in parts)
    return torch.cat([(part - other).norm(dim=-1) <= _ALIKE * other.norm(dim=-1) for part, other in pairs])
