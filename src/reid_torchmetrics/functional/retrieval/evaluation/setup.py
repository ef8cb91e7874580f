"""What decides the numbers of an evaluation besides its protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setup:
    """How scores were made and what relevance was told from, JSON-safe."""

    ties: str
    similarity: str
    """its name, that of a function, or "given scores" """
    rerank: str | None = None
    cameras: bool = False
    """whether cameras were given; without, no camera rule drops anything"""
    lists: bool = False
    """whether relevance came as lists and not as labels"""
    sequences: bool = False
    junk_pairs: bool = False
    multi_query: bool = False

    def __str__(self) -> str:
        """In words, without what is not there."""
        words = [f"similarity: {self.similarity}", f"ties: {self.ties}"]
        words += [f"re-ranked by {self.rerank}"] if self.rerank else []
        words += ["queries pooled by identity and camera"] if self.multi_query else []
        words += ["items of the query's sequence dropped"] if self.sequences else []
        return "; ".join([*words, "pairs dropped by a function"] if self.junk_pairs else words)


def similarity_name(similarity: Any) -> str:
    """A similarity's name or, of a function, where it was defined: its address differs between processes."""
    if isinstance(similarity, str):
        return similarity
    named = similarity if hasattr(similarity, "__qualname__") else type(similarity)
    return f"{named.__module__}.{named.__qualname__}"
