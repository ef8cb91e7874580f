"""The states of a metric over query and gallery embeddings: samples, as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.sharding import Samples
from reid_torchmetrics.metrics.base import GrowingStates, shared_copy
from reid_torchmetrics.metrics.reid.batches import (
    check_against_earlier,
    check_batch,
    copied,
    roles,
    warn_of_mixed_roles,
)
from reid_torchmetrics.metrics.reid.ranking_cache import check_not_written, last_update_time, record_update


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

        Labels are copied. Embeddings are kept by reference, but for views of a larger tensor, which are cloned: clone
        what lies in a buffer that will be filled anew. `compute` raises a ValueError if they were written to since.

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
            batch = {name: copied(values) for name, values in labels.items() if values is not None}
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
        states = {name: getattr(self, name) for name in self._defaults}
        return Samples.joined(states, self._samples_device())

    def _samples_device(self) -> torch.device:
        """Where samples are ranked: where they are, but for MPS, which has no float64."""
        device = self.embeddings[-1].device if self.embeddings else self.device
        return torch.device("cpu") if device.type == "mps" else device
