"""The states of a metric over query and gallery embeddings: samples, batch by batch, and the checks of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torchmetrics.utilities import rank_zero_warn

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.sharding import GALLERY, QUERY, Samples
from reid_torchmetrics.metrics.base import GrowingStates, shared_copy

from .ranking import check_not_written, last_update_time, record_update


class SampleStates(GrowingStates):
    """Holds embeddings and labels; `update` checks a batch and stores it, nothing else."""

    if TYPE_CHECKING:  # `torch.jit` does not know these types
        embeddings: list[Tensor]
        identities: list[Tensor]
        roles: list[Tensor]
        cameras: list[Tensor]
        index: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._add_growing_state("embeddings", torch.empty((0, 0), device="cpu"))
        self._add_growing_state("roles", torch.empty(0, dtype=torch.int8, device="cpu"))
        for name in ("identities", "cameras", "index"):
            self._add_growing_state(name, torch.empty(0, dtype=torch.int64, device="cpu"))
        self._roles_given: set[str] = set()

    def update(
        self,
        embeddings: Tensor,
        identities: Tensor,
        cameras: Tensor | None = None,
        *unnamed: NoReturn,
        is_query: bool | Tensor | None = None,
        index: Tensor | None = None,
    ) -> None:
        """Check and store a batch.

        Labels are copied. Embeddings are kept by reference, but for views of a larger tensor, which are cloned:
        clone a buffer that will be filled anew. `compute` raises a ValueError if they were written to since.

        Args:
            embeddings: float [N, D].
            identities: int [N].
            cameras: int [N], in every batch or in none.
            is_query: True for a batch of queries, False for a batch of gallery items, a bool mask [N] for a mixed
                batch; None (leave-one-out): every sample is a query and, for all others, a gallery item.
            index: int [N], the sample's number in its data set, in every batch or in none. Of samples with the same
                number the first counts, among queries and among gallery items of all processes, so that repetitions by
                a distributed sampler do not. `compute` raises a ValueError if their identities or cameras differ, and
                warns once if a process was given one again with another embedding.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: shapes, devices or dimensions that do not fit; nothing of the batch is stored then.
        """
        with self._deferring_errors():
            if unnamed:  # Python's own error names an inner class
                came = 3 + len(unnamed)
                raise TypeError(f"`is_query` and `index` must be given by name; got {came} arguments without one.")
            check_batch(embeddings, identities, cameras, is_query, index)
            check_against_earlier(self._held(), embeddings, cameras, index)
            labels = {"identities": identities, "cameras": cameras, "index": index}
            # A loop may fill its buffers anew, so labels are copied; embeddings are large, and are not.
            batch = {
                name: each.detach().to(torch.int64, copy=True) for name, each in labels.items() if each is not None
            }
            batch["roles"] = roles(is_query, len(embeddings), embeddings.device)
            batch["embeddings"] = shared_copy(embeddings)
            warn_of_mixed_roles(self._roles_given, is_query)
        record_update(batch["embeddings"], batch["roles"])
        for name, values in batch.items():
            getattr(self, name).append(values)

    def reset(self) -> None:
        """Forget all samples."""
        if self._states_before_forward is None:  # `forward` resets, too
            self._roles_given = set()
        super().reset()

    def _accepted_samples(self) -> tuple[Samples, int]:
        if self._world.size > 1:  # on one process `update` has raised it
            self._raise_deferred_error()
        check_not_written(self.embeddings)
        return self._samples(), last_update_time(self.roles)

    def _samples(self) -> Samples:
        # Samples are ranked where they are, but for MPS, which has no float64.
        device = self.embeddings[-1].device if self.embeddings else self.device
        states = {name: getattr(self, name) for name in self._defaults}
        return Samples.joined(states, torch.device("cpu") if device.type == "mps" else device)


def check_batch(
    embeddings: Tensor,
    identities: Tensor,
    cameras: Tensor | None,
    is_query: bool | Tensor | None,
    index: Tensor | None,
) -> None:
    """Raise unless the arguments of `update` fit each other."""
    _checks.embeddings("embeddings", embeddings)
    length, device = len(embeddings), embeddings.device
    _checks.integer_labels("identities", identities, length, device)
    if cameras is not None:
        _checks.integer_labels("cameras", cameras, length, device)
    if is_query is not None and not isinstance(is_query, (bool, np.bool_)):
        _checks.mask("is_query", is_query, length, device, "be True, False, None or a bool tensor")
    if index is not None:
        _checks.integer_labels("index", index, length, device)


def check_against_earlier(
    earlier: Mapping[str, list[Tensor]], embeddings: Tensor, cameras: Tensor | None, index: Tensor | None
) -> None:
    """Raise unless a batch has the dimension and the labels of the `earlier` batches, the states of a metric."""
    if earlier["embeddings"]:
        before = earlier["embeddings"][-1].shape[1]
        _checks.same_dimension("embeddings", embeddings.shape[1], "embeddings of earlier batches", before)
        _checks.given_throughout("cameras", given=cameras is not None, given_before=bool(earlier["cameras"]))
        _checks.given_throughout("index", given=index is not None, given_before=bool(earlier["index"]))


def roles(is_query: bool | Tensor | None, length: int, device: torch.device) -> Tensor:
    """The role of each sample, `QUERY`, `GALLERY` or both; int8 [length]."""
    if isinstance(is_query, Tensor):
        return torch.where(is_query, QUERY, GALLERY).to(torch.int8)
    role = {None: QUERY | GALLERY, True: QUERY, False: GALLERY}[is_query]
    return torch.full((length,), role, dtype=torch.int8, device=device)


def warn_of_mixed_roles(before: set[str], is_query: bool | Tensor | None) -> None:
    """Note how the roles of a batch are given, and warn once if some batches have queries and others no roles."""
    has_queries = isinstance(is_query, Tensor) or is_query  # a mask is not looked at, for that would wait for a GPU
    given = "nothing" if is_query is None else "queries" if has_queries else "gallery"
    is_new = given not in before
    before.add(given)
    if is_new and {"nothing", "queries"} <= before:
        rank_zero_warn(
            "Some batches were given with `is_query` and some without: the samples of the latter are queries and"
            " gallery items at once (leave-one-out). Pass `is_query=False` with batches of the gallery.",
            UserWarning,
            stacklevel=5,  # the line that calls `update`
        )
