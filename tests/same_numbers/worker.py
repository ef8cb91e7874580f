"""Solves the problems of a kind with the package of one checkout; `checkouts.start` runs it."""

import contextlib
import hashlib
import io
import itertools
import os
import pickle
import sys
import warnings
from pathlib import Path
from random import Random
from typing import Any

import torch

import reid_torchmetrics

from .answers import bits, solve
from .kinds import KINDS
from .problems import Problem


class _Hashed(pickle.Pickler):
    """Writes tensors by their numbers; their own pickles contain addresses."""

    def reducer_override(self, value: Any) -> Any:
        """Return how a tensor is written."""
        return (tuple, (bits(value.numpy()),)) if isinstance(value, torch.Tensor) else NotImplemented


def digest_of(problem: Problem) -> str:
    """Return a hash of everything in a problem."""
    content = io.BytesIO()
    _Hashed(content).dump(problem)
    return hashlib.sha256(content.getvalue()).hexdigest()


def main() -> None:
    """Write the solved problems of each kind and seed to standard output, one pickle each."""
    source, first, stop, *kinds = sys.argv[1:]
    if not Path(reid_torchmetrics.__file__).is_relative_to(source):
        raise SystemExit(f"The package is imported from {reid_torchmetrics.__file__}, not from {source}.")
    output = os.fdopen(os.dup(1), "wb")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for kind, seed in itertools.product(kinds, range(int(first), int(stop))):
        problem = KINDS[kind](Random(f"{kind} {seed}"))  # noqa: S311 - no secret
        digest = digest_of(problem)
        torch.manual_seed(seed)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            values = solve(problem)
        pickle.dump((kind, seed, digest, dict(problem.facts), values), output)
        output.flush()


if __name__ == "__main__":
    main()
