"""Notice samples that several processes hold, where no `index` tells.

A sampler repeats the first samples of a data set at the end of the last processes, or samples were gathered by hand.
Samples 0 to 6, dealt out to two processes by `DistributedSampler`, by Accelerate in batches of two, and
gathered:

    process 0    0 2 4 6       0 1 4 5       0 1 2 3 4 5 6 0
    process 1    1 3 5 0       2 3 6 0       0 1 2 3 4 5 6 0

On the left and in the middle a run of samples at the end of one process is the beginning of another. It may come from
another batch, and differ by rounding; gathered samples have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float32, Int
from torch import Tensor

from reid_torchmetrics.functional.fingerprints import LEAST_GATHERED, SameItems, mixed
from reid_torchmetrics.functional.retrieval.relevance import deciding, packed
from reid_torchmetrics.functional.world import World

from .samples import GALLERY, QUERY, Samples

_NUM_FEATURES = 8  # entries of an embedding that are compared
_CLOSE = 1e-2  # the same picture in another batch, perhaps in half precision
_MOST_COMPARED = 1 << 12  # samples of a process, searched for two of one identity
_AT_A_TIME = 1 << 16  # samples that are compared in float64
_MOST_COUNTED = 64  # samples with entries that are counted
_LEAST_VALUES = 2  # different entries a sample; one-hot vectors and codes of bits have fewer
_MOST_COPIES = 0.01  # of the samples of a process; with more, its ends may be copies of each other by chance
_LENGTH_OF_ROLE = 2 + _NUM_FEATURES // 2
_LENGTH_OF_RUN = 3 + _NUM_FEATURES // 2
NUM_SIGNS = 2 + 2 * _LENGTH_OF_ROLE
"""numbers of `SameSamples.signs`"""

_SAME_SAMPLES = SameItems("samples", "the same samples", "are", "Pass `index` to `update`")


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
        identities = samples.labels.get("identities", torch.zeros_like(labels))  # without, all samples are alike
        return cls(len(samples), arrivals, _tell_apart(identities[:_MOST_COMPARED], entries[:_MOST_COMPARED]))

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

    def warn(self, world: World, signs: Sequence[Sequence[int]], runs: Sequence[Sequence[int]]) -> None:
        """Warn once that processes hold the same samples, given the `signs` and the `run` of each."""
        if not any(can_tell for _, can_tell, *_ in signs):
            return
        for role in range(len(self.arrivals)):
            _SAME_SAMPLES.warn_of_gathered(world, [_of_role(each, role)[0] for each in signs])
        if len({size for size, *_ in signs}) == 1 and any(length for length, *_ in runs):
            _SAME_SAMPLES.warn_of_repeated(world, lambda: any(map(self._begins_with, runs)))

    def _begins_with(self, run: Sequence[int]) -> bool:
        """Whether a run is the beginning of this process: whether it ends alike."""
        length, role, label, *features = run
        return length > 0 and length - 1 in self.arrivals[role].find(label, features).tolist()


def _of_role(signs: Sequence[int], role: int) -> Sequence[int]:
    """The signs of the samples of a role."""
    return signs[2 + role * _LENGTH_OF_ROLE :][:_LENGTH_OF_ROLE]


def _tell_apart(identities: Int[Tensor, " samples"], entries: Float32[Tensor, "samples entries"]) -> bool:
    """Whether some two samples of one identity differ, and entries have many values.

    Otherwise equal samples say nothing: under a constant model all are equal.
    """
    order = identities.argsort(stable=True)
    is_same = identities[order[1:]] == identities[order[:-1]]
    differs = ~_are_close(entries[order[1:]], entries[order[:-1]])
    counted = entries[:_MOST_COUNTED]
    return bool((is_same & differs).any()) and len(counted.unique()) >= _LEAST_VALUES * len(counted)


def _are_close(first: Float32[Tensor, "samples entries"], others: Float32[Tensor, "... entries"]) -> Tensor:
    # A few samples at a time: there may be millions, on a disk.
    parts = zip(first.split(_AT_A_TIME), others.expand_as(first).split(_AT_A_TIME), strict=True)
    pairs = ((part.double(), other.double()) for part, other in parts)
    return torch.cat([(part - other).norm(dim=-1) <= _CLOSE * other.norm(dim=-1) for part, other in pairs])
