"""Queries and gallery items with a mistake of a user, by the name of the cause that says so."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from tests.diagnosis.retrieval.right_samples import Sides


def images(number: int = 160, num_identities: int = 40, dim: int = 16) -> tuple[Tensor, Tensor]:
    """Return embeddings, and identities in turns."""
    generator = torch.Generator().manual_seed(0)
    identities = torch.arange(number) % num_identities
    centers = torch.randn(num_identities, dim, generator=generator)
    return centers[identities] + torch.randn(number, dim, generator=generator), identities


def labeled(query: Tensor, gallery: Tensor, query_identities: Any, gallery_identities: Any, **labels: Any) -> Sides:
    identities = {"query_identities": query_identities, "gallery_identities": gallery_identities}
    return query, gallery, identities | labels


def copies(change: Callable[[Tensor], Tensor], part: slice = slice(None)) -> Sides:
    """Queries that are gallery items but for a small change."""
    embeddings, identities = images()
    return labeled(embeddings[part], change(embeddings), identities[part], identities)


def of_places(
    change_query: Callable[[Tensor], Tensor], change_gallery: Callable[[Tensor], Tensor], dims: int = 2
) -> Sides:
    """Images of a few square kilometers in UTM, or numbers of frames, of which one side or both are changed."""
    generator = torch.Generator().manual_seed(1)
    positions = torch.rand(120, 2, dtype=torch.float64, generator=generator) * 3000 + torch.tensor([500e3, 5300e3])
    if dims == 1:
        positions = 50.0 * torch.arange(120, dtype=torch.float64)[:, None]
    embeddings = torch.randn(180, 16, generator=generator)
    options = {"protocol": "pitts30k", "radius": 25.0}
    options |= {"query_positions": change_query(positions[::2]), "gallery_positions": change_gallery(positions)}
    return embeddings[:60], embeddings[60:], options


def exchanged() -> Sides:
    """Places on a plan, of which those along the diagonal are found in the wrong order, too."""
    generator = torch.Generator().manual_seed(1)
    positions = torch.rand(120, 2, dtype=torch.float64, generator=generator) * torch.tensor([3000.0, 1000.0])
    positions[::12] = positions[::12, :1]
    embeddings = torch.randn(240, 16, generator=generator)
    places = {"query_positions": positions.flip(1), "gallery_positions": positions}
    return embeddings[:120], embeddings[120:], {"protocol": "pitts30k", "radius": 25.0} | places


def spelled(query_word: str, gallery_word: str) -> Sides:
    """Identities of the same persons in two spellings."""
    embeddings, identities = images()
    words = [[word.format(number) for number in identities.tolist()] for word in (query_word, gallery_word)]
    return labeled(embeddings[:50], embeddings[50:], words[0][:50], words[1][50:])


def partly_spelled() -> Sides:
    """Identities with zeros in front on one side, which those with four digits do not have."""
    embeddings, identities = images(160, 40)
    numbers = identities * 31
    padded = [f"{number:04d}" for number in numbers.tolist()]
    return labeled(embeddings[:50], embeddings[50:], padded[:50], [str(number) for number in numbers.tolist()][50:])


def same(values: Tensor) -> Tensor:
    return values


def joined(side: int, part: slice) -> Sides:
    """A side with some of its samples again at the end."""
    embeddings, identities = images(200, 12)
    rows = [torch.arange(40), torch.arange(40, 200)]
    rows[side] = torch.cat([rows[side], rows[side][part]])
    query, gallery = rows
    return labeled(embeddings[query], embeddings[gallery], identities[query], identities[gallery])


def unwritten(side: int, part: slice) -> Sides:
    """A side with rows of zeros."""
    embeddings, identities = images()
    sides = [embeddings[:60], embeddings[60:]]
    sides[side][part] = 0
    return labeled(*sides, identities[:60], identities[60:])


def of_one_identity(num_identities: int) -> Sides:
    embeddings, identities = images(160, 40)
    return labeled(embeddings[:50], embeddings[50:], identities[:50] * 0, identities[50:] * 0)


DEGREES, KILOMETERS = 1 / 111_000, 1 / 1000

WRONG: dict[str, dict[str, Callable[[], Sides]]] = {
    "copied_queries": {
        "equal": lambda: copies(same),
        "part": lambda: copies(same, slice(0, 160, 3)),
        "normalized": lambda: copies(normalize),
        "half": lambda: copies(Tensor.half),
        "normalized in bfloat16": lambda: copies(lambda rows: normalize(rows).bfloat16()),
        "another batch": lambda: copies(lambda rows: rows * (1 + 1e-3 * torch.randn_like(rows))),
        "in another order": lambda: (
            copies(same)[0].flip(0),
            *copies(same)[1:2],
            {"query_identities": images()[1].flip(0), "gallery_identities": images()[1]},
        ),
    },
    "unlike_labels": {
        "axes": lambda: of_places(lambda places: places.flip(1), same),
        "zeros in front": lambda: spelled("{:05d}", "{}"),
        "case": lambda: spelled("Person {}", "person {}"),
        "spaces": lambda: spelled("a{} ", "a{}"),
        "prefix": lambda: spelled("id_{}", "{}"),
        "floats": lambda: spelled("{}.0", "{}"),
        "degrees": lambda: of_places(lambda places: places * DEGREES, same),
        "frames": lambda: of_places(lambda frames: frames + 7999, same, dims=1),
        "axes, of most": exchanged,
        "zeros in front of most": partly_spelled,
    },
    "no_negatives": {
        "one identity": lambda: of_one_identity(1),
        "kilometers": lambda: of_places(lambda places: places * KILOMETERS, lambda places: places * KILOMETERS),
        "normalized": lambda: of_places(lambda places: places / 6e6, lambda places: places / 6e6),
    },
    "repeated_samples": {
        "queries": lambda: joined(0, slice(0, 8)),
        "gallery": lambda: joined(1, slice(0, 24)),
        "all": lambda: joined(1, slice(None)),
        "middle": lambda: joined(1, slice(30, 60)),
    },
    "zero_embeddings": {
        "gallery": lambda: unwritten(1, slice(80, None)),
        "queries": lambda: unwritten(0, slice(20, 32)),
    },
}
"""mistakes by their name, for each cause"""
