"""The samples that metrics hold, and their ranking: once for all metrics that hold the same samples.

`update` checks a batch and stores it; `compute` ranks all samples (`SampleStates._rank_once`).

A ranking is kept under its options, processes and device, and is used again for equal samples
unless a buffer, the ranks or a learned similarity may have changed since (`KeptRanking.is_for`). For instance:

    a, b, c = ReIDMeanAP(), ReIDMINP(), ReIDMeanAP(ties="optimistic")     each is given the same batches
    a.compute()                  ranks
    b.compute()                  the same key, equal samples: the ranking of a
    c.compute()                  another key: ranks, and is kept beside it
    a.update(...); a.compute()   other samples: ranks, and what was kept is let go
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from torchmetrics.utilities.prints import rank_zero_only
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _hints
from reid_torchmetrics._arrays import compute_device
from reid_torchmetrics._signatures import with_typed_options
from reid_torchmetrics.functional.advice import advise
from reid_torchmetrics.functional.fingerprints import count_forgotten
from reid_torchmetrics.functional.result_cache import Kept, ResultCache, drawn_number, number_of_all, version_of
from reid_torchmetrics.functional.retrieval import advice
from reid_torchmetrics.functional.retrieval.evaluation import Ranking, RankingOptions, rank_samples
from reid_torchmetrics.functional.retrieval.relevance import (
    DECIDING,
    EXTRA,
    LABELS,
    SIDES,
    BatchLabels,
    LabelValues,
    NumberedLabels,
    are_missing,
    argument_of,
    check_alike,
    hash_names,
    may_hold_names,
    names_in_rules,
)
from reid_torchmetrics.functional.retrieval.scores import DEFAULT_MAX_BYTES, EmbeddingScores
from reid_torchmetrics.functional.retrieval.sharding import (
    GALLERY,
    GROUPED,
    QUERY,
    Samples,
    names_as_tensor,
    names_from_tensor,
)
from reid_torchmetrics.functional.world import Settings, meet, warn_once
from reid_torchmetrics.metrics.base import GrowingStates, explain_bad_call, shared_copy

_EMPTY = {
    "embeddings": torch.empty((0, 0), device="cpu"),
    "roles": torch.empty(0, dtype=torch.int8, device="cpu"),
    **{name: label.empty(device=torch.device("cpu")) for name, label in LABELS.items()},
    "label_names": torch.empty(0, dtype=torch.uint8, device="cpu"),
}
_UNNAMED = {Tensor, type(None)}  # types of labels without names
_PROBED = (64, 256)  # queries and gallery items: all their pairs are scored to tell whether a function has learned
_NUM_ROWS = 8  # of an array, which differ if it is a buffer that was filled anew
_PROBED_WITH_ALL = 4  # queries that are scored with every gallery item, and gallery items with every query
_clock = map(int, itertools.count())  # `torch.compile` compiles anew for each number of a count alone
_times: WeakIdKeyDictionary = WeakIdKeyDictionary()  # when a batch came, by its roles, which belong to it alone
_versions: WeakIdKeyDictionary = WeakIdKeyDictionary()  # its embeddings then: how often written to, some rows
rankings: ResultCache[KeptRanking] = ResultCache("embeddings")  # of all metrics


class SampleStates(GrowingStates):
    """Holds embeddings and labels; `update` checks a batch and stores it, nothing else."""

    if TYPE_CHECKING:  # `torch.jit` does not know these types
        embeddings: list[Tensor]
        roles: list[Tensor]
        groups: list[Tensor]
        label_names: list[Tensor]

    _owned = "roles"
    _label_rules: Mapping[str, Any] = MappingProxyType({})
    """the options that list labels, or say what becomes of missing ones"""
    _camera_rules: tuple[str, str] | None = None
    """name and rules of a benchmark with rules about cameras, if it was named"""
    _lists_names = False
    """whether some of them want names, or change labels that are missing"""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._add_growing_states(_EMPTY)
        self._roles_given: set[str] = set()
        self._num_forgotten = 0

    @with_typed_options(BatchLabels)
    @explain_bad_call
    def update(
        self,
        embeddings: Tensor | _checks.Array,
        identities: Tensor | _checks.IntegersOrNames | _checks.SeveralLabels | None = None,
        cameras: Tensor | _checks.IntegersOrNames | None = None,
        *,
        is_query: bool | Tensor | _checks.Integers | None = None,
        index: Tensor | _checks.Integers | None = None,
        **labels: Unpack[BatchLabels],
    ) -> None:
        """Check and store a batch.

        Embeddings are a tensor or a NumPy array, labels these, a list or a column of pandas; arrays and lists of labels
        go to the device of the embeddings. Floats that are whole numbers are labels, too, but to look at them waits for
        the device. Labels but for `index` and `positions` may be names, strings: a name is the same in all batches and
        on all processes, by a hash of 63 bits, and results show it.

        Labels are copied. Embeddings are kept by reference, but for views of a larger tensor, which are cloned:
        clone a buffer that will be filled anew. `compute` raises a ValueError if they were written to since.

        Args:
            embeddings: float [N, D].
            identities: int [N], or for several labels of a sample a matrix [N, labels] of bools or of 0 and 1; they may
                be left out where relevance is by `radius`.
            cameras: int [N], in every batch or in none, like every label.
            is_query: True for a batch of queries, False for a batch of gallery items, a bool mask [N] for a mixed
                batch; None (leave-one-out): every sample is a query and, for all others, a gallery item.
            index: int [N], the sample's number in its data set, in every batch or in none. Of samples with the same
                number the first counts, among queries and among gallery items of all processes, so that repetitions by
                a distributed sampler do not. `compute` raises a ValueError if their labels differ, and warns once if a
                process was given one again with another embedding.
            labels: `sequences`, int [N], whose items are dropped for queries of the same one; `clothes`, int [N], and
                `positions`, coordinates [N] or [N, 1 to 3], kept as float64, for the protocol's `clothes` and `radius`;
                `groups`, int [N], the group of each gallery item, which are ranked in the place of the items: the score
                of a group is that of its best member. Batches with `is_query=True` need no groups, and groups of
                queries decide nothing; `labels`, a mapping of the names in the protocol's `must_agree` and
                `must_differ` to integers or names [N]: {"side": [...]}, of queries and of gallery items.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: shapes, devices or dimensions that do not fit, names in one batch and integers in another, or
                identities that are missing; nothing of the batch is stored then.
        """
        with self._deferring_errors():
            is_array = not isinstance(embeddings, Tensor)
            for name in (name for name in labels if name not in LABELS):
                hint = _hints.argument_meant(name, ["is_query", *LABELS])
                raise TypeError(f"update() got an unexpected keyword argument {name!r}{hint}.")
            named: dict[str, Any] = {"identities": identities, "cameras": cameras, "index": index, **labels}
            self._check_needed(named, is_query)
            held: Mapping[str, list[Tensor]] = self._states_before_forward or vars(self)
            names: Tensor | None = None
            # Nearly all batches are tensors, which need not be looked at.
            if held["label_names"] or self._lists_names or not _UNNAMED.issuperset(map(type, named.values())):
                named, names = self._without_names(named, held)
            embeddings, is_query, given = check_batch(self._read_embeddings(embeddings), is_query, named)
            check_against_earlier(held, embeddings, given)
            # A loop may fill its buffers anew, so labels are copied; embeddings are large, and are not.
            batch = {name: values.detach().clone() for name, values in given.items()}
            batch["roles"] = roles(is_query, len(embeddings), embeddings.device)
            if "groups" in given:
                batch["roles"] += GROUPED
            batch["embeddings"] = shared_copy(embeddings)
            if names is not None:
                batch["label_names"] = names.to(embeddings.device)
            if note_roles(self._roles_given, is_query, grouped="groups" in given):
                mixed_roles = advice.RetrievalEvidence(has_mixed_roles=True)
                rank_zero_only(advise)(advice.RETRIEVAL_ADVICE.values(), mixed_roles, self._warning_log())
        record_update(batch["embeddings"], batch["roles"], is_array=is_array)
        self._append(batch)

    def _without_names(
        self, labels: dict[str, Any], held: Mapping[str, list[Tensor]]
    ) -> tuple[dict[str, Any], Tensor | None]:
        """Labels with numbers in the place of names, and the names as a state has them; None without names."""
        held_names = held["label_names"]
        if not (held_names or self._lists_names or any(map(may_hold_names, labels.values()))):
            return labels, None
        earlier = names_from_tensor(held_names[-1]) if held_names else {}
        numbered = hash_names(labels, self._label_rules)
        check_kinds(held, earlier, numbered, names_in_rules(self._label_rules))
        if not numbered.names:
            return numbered.values, None
        # Labels that were named before stay named, also where this batch has none of them.
        named: dict[str, Mapping[int, str]] = {name: {} for name in earlier}
        return numbered.values, names_as_tensor(named | numbered.names)

    def reset(self) -> None:
        """Forget all samples."""
        if self._states_before_forward is None:  # `forward` resets, too
            self._roles_given = set()
            self._num_forgotten = 0
        super().reset()

    def _read_embeddings(self, embeddings: object) -> Tensor:
        """Embeddings as a tensor; raise unless they are."""
        return _checks.embeddings("embeddings", embeddings, getattr(embeddings, "device", None))

    def _check_needed(self, labels: Mapping[str, object], is_query: object) -> None:
        """Raise unless a batch has all labels that it must have."""

    def _accepted_samples(self) -> HeldSamples:
        self._raise_deferred_error()
        check_not_written(self.embeddings)
        if self._states_before_forward is None and not self.index and self._world.process == 0:
            labels = (getattr(self, name) for name in DECIDING if name != "groups")
            # Some batches lack groups: their roles stand for these.
            batches, given = self.roles if self.groups else [], iter([batch for batch in self.groups if len(batch)])
            groups = [next(given, roles) if bool((roles[:1] & GROUPED).any()) else roles for roles in batches]
            self._num_forgotten = count_forgotten(self.roles, groups, *labels) or self._num_forgotten
        # Samples are ranked where they are, unless there is no float64.
        device = self.embeddings[-1].device if self.embeddings else self.device
        states = {name: getattr(self, name) for name in self._defaults}
        times = [_times.get(roles, -1) for roles in self.roles]
        return HeldSamples(states, compute_device(device), max(times, default=-1))

    @torch.no_grad()
    def _rank_once(self, options: RankingOptions, describe: Callable[[], Settings], max_bytes: int | None) -> Ranking:
        """Rank the samples of all processes, or find that they were ranked for another metric.

        An error at the end is this process's alone: `conclude` tells the others.

        Args:
            options: how samples are ranked.
            describe: says what was asked for, which must be the same on all processes.
            max_bytes: bound on the scores that are held at a time; None as for the metrics.

        Raises:
            DistributedMetricError: an error on some process, or metrics or samples that differ between processes.
        """
        world = self._world

        def look() -> tuple[tuple[HeldSamples, Hashable, Kept[KeptRanking] | None], list[int]]:
            held = self._accepted_samples()
            # All that `rank_samples` is given besides the samples; `max_bytes` changes no rank.
            key = (options, world.members, held.device)
            kept = rankings.find(held.states, key, lambda kept: kept.may_be_of(held))
            if kept is None or world.size > 1:
                _ = held.samples  # an error about them is raised here, on all processes
            if kept is not None and not kept.result.is_for(held, options.similarity):
                kept = None
            return (held, key, kept), [drawn_number(), 0 if kept is None else kept.number]

        (held, key, kept), table = meet(world, look, describe)
        # Samples may have changed on another process alone: a ranking is used again if all processes have it.
        if kept is None or number_of_all([offered for _, offered in table]) is None:
            ranking = rank_samples(held.samples, options, world, max_bytes=max_bytes)
            kept = Kept(table[0][0], KeptRanking(ranking, held, options.similarity))
            if held.states["embeddings"] or world.members:  # nothing but newer samples ends what has no embeddings
                rankings.keep(held.states, key, kept)
        ranking = kept.result.ranking
        if self._states_before_forward is None and ranking.undefined:  # on all processes alike
            warn_once(world, "undefined", ranking.undefined)
        is_without_cameras = "cameras" not in ranking.labels
        missing_cameras = self._camera_rules if is_without_cameras else None
        advice.advise_on_retrieval(
            ranking.with_evidence(num_forgotten=self._num_forgotten, missing_cameras=missing_cameras), world
        )
        return ranking


def check_batch(
    embeddings: Tensor, is_query: Any, labels: Mapping[str, object]
) -> tuple[Tensor, bool | Tensor | None, dict[str, Tensor]]:
    """The embeddings, roles and labels of `update` as tensors; raise unless they fit each other."""
    length, device = len(embeddings), embeddings.device
    given = {name: value for name, value in labels.items() if value is not None}
    if is_query is not None and not isinstance(is_query, (bool, np.bool_)):
        is_query = _checks.mask("is_query", is_query, length, device, "be True, False, None or a bool tensor")
    checked = {name: LABELS[name].check(name, value, length, device) for name, value in given.items()}
    return embeddings, is_query, checked


def check_kinds(
    held: Mapping[str, list[Tensor]], earlier: Collection[str], numbered: NumberedLabels, extra: Sequence[str] = ()
) -> None:
    """Raise if a batch has names for a label that was integers in earlier batches, or the reverse.

    Args:
        held: the states of the earlier batches.
        earlier: the labels that were names in them.
        numbered: the labels of the batch.
        extra: the labels that users name, which come together.

    Raises:
        ValueError: it has.
    """
    for label, values in numbered.values.items():
        is_new = not (hasattr(values, "__len__") and len(values)) or not any(map(len, held.get(label, ())))
        if is_new:
            continue
        arguments = {name: argument_of(label, name) for name in extra} if label == EXTRA else {label: label}
        for name, argument in arguments.items():
            if (name in numbered.names) == (name in earlier):
                continue
            if are_missing(values) or all(map(are_missing, held[label])):
                continue
            kinds = ("names", "integers") if name in numbered.names else ("integers", "names")
            came = f"a batch of {kinds[0]} after batches of {kinds[1]}"
            raise ValueError(f"`{argument}` must be names in every batch, or integers in every batch; got {came}.")


def check_against_earlier(earlier: Mapping[str, list[Tensor]], embeddings: Tensor, labels: LabelValues) -> None:
    """Raise unless a batch has the dimension and the labels of the `earlier` batches, the states of a metric."""
    if not earlier["embeddings"]:
        return
    before = earlier["embeddings"][-1].shape[1]
    _checks.same_dimension("embeddings", embeddings.shape[1], "embeddings of earlier batches", before)
    for name, label in LABELS.items():
        if label.sides == SIDES and (name in labels) != bool(earlier[name]):
            _checks.given_throughout(name, given=name in labels, given_before=bool(earlier[name]))
    for name, values in labels.items():
        last_batch = earlier[name][-1] if earlier[name] else values
        if LABELS[name].may_be_several and (values.ndim > 1 or last_batch.ndim > 1):
            check_alike(name, values, "earlier batches", last_batch)
        elif values.ndim > 1:
            _checks.same_width(name, values.shape[1], last_batch.shape[1], "earlier batches")


def roles(is_query: bool | Tensor | None, length: int, device: torch.device) -> Tensor:
    """The role of each sample, `QUERY`, `GALLERY` or both; int8 [length]."""
    if isinstance(is_query, Tensor):
        return torch.where(is_query, QUERY, GALLERY).to(torch.int8)
    role = {None: QUERY | GALLERY, True: QUERY, False: GALLERY}[is_query]
    return torch.full((length,), role, dtype=torch.int8, device=device)


def note_roles(before: set[str], is_query: bool | Tensor | None, *, grouped: bool) -> bool:
    """Note how a batch has roles and groups; whether some batches have queries and others no roles.

    Raises:
        ValueError: some batches with gallery items have groups, and others do not.
    """
    if grouped and is_query is None:
        raise ValueError("`groups` must come with `is_query`, as a query is no member of a group; got them without.")
    is_mask = isinstance(is_query, Tensor)  # it is not looked at, for that would wait for a GPU
    if is_mask or not is_query:
        if before & {"groups", "no groups"}:
            _checks.given_throughout("groups", given=grouped, given_before="groups" in before)
        before.add("groups" if grouped else "no groups")
    before.add("nothing" if is_query is None else "queries" if is_mask or is_query else "gallery")
    return {"nothing", "queries"} <= before


def record_update(embeddings: Tensor, roles: Tensor, *, is_array: bool) -> None:
    """Remember that a batch came now, and how it was, whichever metrics hold it."""
    # NumPy counts no versions, nor do tensors of `inference_mode`, whose buffers differ in their first row.
    number = _NUM_ROWS if is_array else int(embeddings.is_inference())
    rows = _some(embeddings, number).clone() if number else None
    _times[roles], _versions[embeddings] = next(_clock, 0), (version_of(embeddings), rows)


def check_not_written(batches: Sequence[Tensor]) -> None:
    """Raise if embeddings were written to after they came.

    Raises:
        ValueError: some were.
    """
    if written := [place for place, block in enumerate(batches) if _is_written(block)]:
        raise ValueError(
            "`embeddings` must stay as they are from `update` to `compute`, because they are not copied; got"
            f" {len(written)} of {len(batches)} batches that were written to in place, the first of them batch"
            f" {written[0]}. Pass `embeddings.clone()` to `update` where the tensor is a buffer that is used again."
        )


def _is_written(block: Tensor) -> bool:
    version, rows = _versions.get(block, (version_of(block), None))
    is_same = rows is None or torch.equal(rows.nan_to_num(), _some(block, _NUM_ROWS)[: len(rows)].nan_to_num())
    return not is_same or version != version_of(block)


@dataclass(frozen=True)
class HeldSamples:
    """The samples of a metric, batch by batch; they are joined only to be ranked."""

    states: Mapping[str, list[Tensor]]
    device: torch.device
    """where they are ranked"""
    time: int
    """when the last of them came, -1 if it is unknown, as for samples from a checkpoint"""

    @cached_property
    def samples(self) -> Samples:
        """The samples of all batches; a ValueError is raised if merged batches do not fit each other."""
        return Samples.joined(self.states, self.device)


class KeptRanking:
    """A ranking, with the state of its ranks and scores, to notice what changed before it is used again."""

    def __init__(self, ranking: Ranking, samples: HeldSamples, similarity: object) -> None:
        """Note the versions of the ranks, and some scores of a learned similarity."""
        self.ranking = ranking
        self._time = next(_clock, 0)
        self._versions = self._rank_versions()
        self._probe = _probe(samples, similarity)

    def may_be_of(self, samples: HeldSamples) -> bool:
        """Whether samples came before it: NumPy, for one, counts no versions of a buffer that is filled anew."""
        return samples.time <= self._time

    def is_for(self, samples: HeldSamples, similarity: object) -> bool:
        """Whether it is still the ranking of equal samples that `may_be_of`."""
        are_as_written = self._versions == self._rank_versions()  # the ranks
        return are_as_written and all(map(torch.equal, self._probe, _probe(samples, similarity)))

    def _rank_versions(self) -> list[int]:
        ranking = self.ranking
        parts = [part for part in (ranking, ranking.ranks, ranking.ranks.tied, ranking.drawn) if part is not None]
        values_of_parts = (value for part in parts for value in vars(part).values())
        return [version_of(values) for values in values_of_parts if isinstance(values, Tensor)]


def _probe(held: HeldSamples, similarity: Any) -> list[Tensor]:
    """Some scores of a similarity that is a function: it has learned if they change; none for a similarity by name.

    Its parameters could be anywhere. Every query and every gallery item is scored, so that a rule about a single one
    shows, too.
    """
    if not callable(similarity):
        return []
    samples = held.samples
    query, gallery = ((samples.roles & role > 0).nonzero()[:, 0] for role in (QUERY, GALLERY))
    if not (len(query) and len(gallery)):
        return []
    pairs = [
        (_some(query, _PROBED[0]), _some(gallery, _PROBED[1])),
        (_some(query, _PROBED_WITH_ALL), gallery),
        (query, _some(gallery, _PROBED_WITH_ALL)),
    ]
    sides = ((samples.rows(one), samples.rows(other)) for one, other in pairs)
    scores = (EmbeddingScores(*rows, similarity=similarity, max_bytes=DEFAULT_MAX_BYTES) for rows in sides)
    return [each.all().nan_to_num() for each in scores]


def _some(positions: Tensor, number: int) -> Tensor:
    """Up to `number` positions, spread over all of them."""
    return positions[:: -(-len(positions) // number) or 1].contiguous()
