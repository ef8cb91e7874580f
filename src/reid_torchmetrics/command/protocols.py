"""`protocols`: what the name of a protocol means, in words."""

from __future__ import annotations

from collections.abc import Sequence

from reid_torchmetrics.functional.model_tables import aligned, split_conventions
from reid_torchmetrics.functional.retrieval import PROTOCOLS, Protocol, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation import Setup, describe

from .options import parsed


def run(words: Sequence[str]) -> int:
    """Print all names with their sources, or the conventions of some; return the exit status."""
    names = parsed("protocols", words)[0].names
    texts = [in_words(find_protocol(name)) for name in names]
    short = aligned([(name, each.source) for name, each in PROTOCOLS.items()], num_left=2)
    print("\n\n".join(texts) if names else "\n".join(short))  # noqa: T201
    return 0


def in_words(protocol: Protocol) -> str:
    """The source of a protocol, and the convention of each number that it reports."""
    setup = Setup("pessimistic", "cosine", cameras=True, lists=protocol.needs_lists, groups=protocol.needs_groups)
    alone, shared = split_conventions({name: describe(name, protocol, setup) for name in protocol.reports})
    rows = [f"  {name:<12} {words}" for name, words in alone.items()]
    return "\n".join([protocol.name, f"  {protocol.source}", *rows, *([f"  {shared}"] if shared else [])])
