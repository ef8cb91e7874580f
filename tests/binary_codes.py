"""Binary codes in every form, and their Hamming distances."""

import numpy as np
import torch

FORMS = {
    "floats of 1 and -1": lambda bits: torch.from_numpy(2.0 * bits - 1).float(),
    "floats of 0 and 1": lambda bits: torch.from_numpy(bits).float(),
    "half floats": lambda bits: torch.from_numpy(2.0 * bits - 1).half(),
    "float64": lambda bits: torch.from_numpy(2.0 * bits - 1),
    "int8 of 1 and -1": lambda bits: (2 * bits - 1).astype(np.int8),
    "int64 of 0 and 1": torch.from_numpy,
    "uint8": lambda bits: bits.astype(np.uint8),
    "bool": lambda bits: bits.astype(bool),
}


def make_codes(num_bits, seed=0, num_queries=7, num_gallery=60):
    rng = np.random.default_rng(seed)
    bits = [rng.integers(0, 2, (number, num_bits)) for number in (num_queries, num_gallery)]
    bits[0][0], bits[1][0] = 1, 0  # a query of ones, and an item of zeros
    identities = [torch.from_numpy(rng.integers(0, 4, number)) for number in (num_queries, num_gallery)]
    return bits, identities


def hamming_distances(query, gallery):
    """Count the bits that differ, one pair at a time."""
    return np.array([[int(sum(a != b for a, b in zip(row, item, strict=True))) for item in gallery] for row in query])
