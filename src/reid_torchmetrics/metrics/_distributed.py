"""The few collectives that the metrics need, over `torch.distributed`.

A collective that only some ranks reach hangs the others. So whatever may fail happens inside `together` or `sum`, which
let all ranks know, and number and shape of the collectives depend only on sizes that all ranks have agreed on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

Result = TypeVar("Result")


class DistributedMetricError(RuntimeError):
    """Raised on every rank when some rank failed, with the ranks and their messages."""


class Group:
    """The processes that share a metric's samples."""

    def __init__(self, process_group: Any, samples_device: torch.device) -> None:
        """Take a process group, or all processes if it is None.

        Raises:
            RuntimeError: `torch.distributed` is not initialised.
            ValueError: this process is not in the group.
        """
        if not (distributed.is_available() and distributed.is_initialized()):
            raise RuntimeError("A metric is combined over processes only after `torch.distributed.init_process_group`.")
        self._group = distributed.group.WORLD if process_group is None else process_group
        self.size = distributed.get_world_size(self._group)
        self.rank = distributed.get_rank(self._group)
        if self.rank < 0:
            raise ValueError("`process_group` must contain the process that computes the metric; got one without it.")
        self.members = tuple(distributed.get_process_group_ranks(self._group))
        self.device = _device_of(self._group, samples_device)
        """where the group's backend wants tensors"""

    def gather(self, values: Tensor) -> Tensor:
        """`values` of every rank, [ranks, *shape]; all must have the same shape and dtype."""
        values = values.to(self.device).contiguous()
        gathered = values.new_empty((self.size, *values.shape))
        distributed.all_gather(list(gathered.unbind()), values, group=self._group)
        return gathered

    def share(self, rows: Tensor, sizes: Sequence[int]) -> None:
        """Fill the rows of the other ranks; `sizes` are the numbers of rows of each rank, in order, own rows are there.

        One broadcast a rank, into a slice: nothing is padded and nothing is copied.
        """
        for source, part in enumerate(rows.split(list(sizes))):
            self.broadcast(part, source)

    def broadcast(self, rows: Tensor, source: int) -> None:
        """Fill `rows`, which must be contiguous, with those of rank `source`."""
        if rows.numel():
            as_bytes = rows.view(-1).view(torch.uint8)  # every backend moves bytes, not every one bfloat16
            distributed.broadcast(as_bytes, src=self.members[source], group=self._group)

    def sum(self, buffer: Tensor, fill: Callable[[Tensor], None]) -> Tensor:
        """Let `fill` write to `buffer[1:]` and add that up over the ranks; the first entry says whether it failed.

        Raises:
            DistributedMetricError: `fill` failed on some rank; see `agree`.
        """
        error = None
        try:
            fill(buffer[1:])
        except Exception as caught:  # noqa: BLE001 - raised on all ranks
            error = caught
        buffer[0] = error is not None
        distributed.all_reduce(buffer, group=self._group)
        if bool(buffer[0] > 0):
            self.agree(error)
        return buffer[1:]

    def together(self, work: Callable[[], Result]) -> Result:
        """Do local work on every rank, and raise on all if it fails on one; see `agree`."""
        return self.exchange(lambda: (work(), ()), 0)[0]

    def exchange(
        self, work: Callable[[], tuple[Result, Sequence[int]]], num_numbers: int
    ) -> tuple[Result, list[list[int]]]:
        """Do local work on every rank, and learn some numbers that come of it on all ranks.

        Raises:
            DistributedMetricError: the work failed on some rank; see `agree`.
        """
        done, error = None, None
        try:
            done = work()
        except Exception as caught:  # noqa: BLE001 - raised on all ranks
            error = caught
        numbers = done[1] if done else [0] * num_numbers
        table = self.gather(torch.tensor([error is not None, *numbers])).tolist()
        if done is None or any(failed for failed, *_ in table):
            self.agree(error)
        assert done is not None  # noqa: S101 - `agree` has raised
        return done[0], [row[1:] for row in table]

    def agree(self, error: Exception | None) -> None:
        """Raise on every rank if there is an error on one.

        Raises:
            DistributedMetricError: ranks and messages of those that failed.
            Exception: the error itself, where all ranks failed in the same way.
        """
        texts = self.texts("" if error is None else _describe(error))
        if not any(texts):
            return
        if error is not None and len(set(texts)) == 1:
            raise error
        failed = [f"rank {rank}: {text}" for rank, text in enumerate(texts) if text]
        raise DistributedMetricError("; ".join(failed)) from error

    def texts(self, text: str) -> list[str]:
        """A text of every rank."""
        data = bytearray(text.encode(errors="backslashreplace"))
        encoded = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
        sizes = self.gather(torch.tensor([len(encoded)]))[:, 0].tolist()
        if not any(sizes):
            return [""] * self.size
        joined = torch.empty(sum(sizes), dtype=torch.uint8, device=self.device)
        joined.split(sizes)[self.rank].copy_(encoded)
        self.share(joined, sizes)
        return [bytes(part.tolist()).decode() for part in joined.split(sizes)]


def digest(settings: str) -> int:
    """A number that stands for a text when ranks compare theirs."""
    return int.from_bytes(hashlib.sha256(settings.encode()).digest()[:7], "big")


def differing(what: str, values: Sequence[object]) -> DistributedMetricError:
    """The error to raise on all ranks when they do not have the same; every rank must know the values of all."""
    listed = "; ".join(f"rank {rank}: {value}" for rank, value in enumerate(values))
    return DistributedMetricError(f"All ranks must have the same {what}; got {listed}.")


def _describe(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - its text is the user's code
        return type(error).__name__


def _device_of(process_group: Any, samples_device: torch.device) -> torch.device:
    """A device that the group's backend can use, by rules that have the same outcome on all ranks.

    Not by where the samples are: a rank without samples may have its metric elsewhere.
    """
    backend = str(getattr(distributed, "get_backend_config", distributed.get_backend)(process_group))
    if "nccl" not in backend or "cpu" in backend or not torch.cuda.is_available():
        return torch.device("cpu")
    if samples_device.type == "cuda":
        return samples_device
    return torch.device("cuda", torch.cuda.current_device())
