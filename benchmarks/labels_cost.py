"""Claims: positions or clothes beside identities, or in their place, cost no tenth more at Market-1501's size.

    python benchmarks/labels_cost.py [--repeats 7]

3,368 queries and 15,913 gallery items of dimension 512, float32, of real identities and cameras. An identity has two
clothes; its positions are around one place in a square of 5 km, so that positives are as many and as near. Distractors
lie beside it: as positives of low scores they would be another problem. The ways take turns in one process.
"""

from __future__ import annotations

import argparse
import sys

import torch

from harness.claims import claim, interleaved, median_ratio
from harness.problems import market1501
from reid_torchmetrics import evaluate

LIMIT = 1.1
SPREAD, EXTENT = 5.0, 5_000.0  # meters


def positions(identities: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Around the place of each identity; distractors are in a square beside."""
    places = torch.rand((int(identities.max()) + 2, 2), generator=generator, dtype=torch.float64) * EXTENT
    around = SPREAD * torch.randn((len(identities), 2), generator=generator, dtype=torch.float64)
    elsewhere = torch.rand((len(identities), 2), generator=generator, dtype=torch.float64) * EXTENT
    elsewhere[:, 0] += 1.01 * EXTENT
    return torch.where((identities > 0)[:, None], places[identities] + around, elsewhere) + 4_477_000


def main() -> None:
    """Measure both claims; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    query, gallery, *labels = market1501(512, 1.0)
    identities, generator = labels[:2], torch.Generator().manual_seed(0)
    both = torch.cat(identities)
    sides = len(query), len(gallery)
    place, wear = positions(both, generator), 2 * both + torch.randint(0, 2, both.shape, generator=generator)
    where = dict(zip(("query_positions", "gallery_positions"), place.split(sides), strict=True))
    clothes = dict(zip(("query_clothes", "gallery_clothes"), wear.split(sides), strict=True))
    seconds = interleaved(
        {
            "identities": lambda: evaluate(query, gallery, *labels),
            "clothes": lambda: evaluate(query, gallery, *labels, **clothes, clothes="drop_same"),
            "positions": lambda: evaluate(query, gallery, **where, radius=25.0, same_camera="keep"),
        },
        repeats,
    )
    holds = [
        claim(f"times the cost of identities, with {name}", median_ratio(seconds[name], seconds["identities"]), LIMIT)
        for name in ("clothes", "positions")
    ]
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
