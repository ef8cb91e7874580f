"""Names of labels, gathered from all processes: results show them, and no ranking needs them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.relevance import LabelTables, decode_names, encode_names
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows


def gather_names(world: World, tables: LabelTables) -> LabelTables:
    """Gather the names of each label by their numbers; each process passes its own.

    All processes must pass tables of the same labels.

    Raises:
        DistributedMetricError: an error on some process, such as two names with one hash.
    """
    if not tables or world.size == 1:
        return tables

    def encode() -> tuple[Tensor, list[int]]:
        encoded = names_as_tensor(tables)
        return encoded, [len(encoded)]

    encoded, table = world.guarded_all_gather(encode)
    sizes = [size for (size,) in table]
    (received,) = exchange_rows(world, sizes, SentRows(lambda: [encoded], dtype=torch.uint8))
    return world.guarded(lambda: names_from_tensor(received))


def names_as_tensor(tables: LabelTables) -> Tensor:
    """Encode names as bytes, for states and messages; several tables may follow each other."""
    return torch.from_numpy(np.frombuffer(encode_names(tables), dtype=np.uint8).copy())


def names_from_tensor(encoded: Tensor) -> dict[str, dict[int, str]]:
    """Decode the names of `names_as_tensor`."""
    return decode_names(encoded.cpu().numpy().tobytes())
