"""The numbers of two results in one order of their queries; results that cannot be compared are refused."""

from __future__ import annotations

from dataclasses import fields

import torch
from jaxtyping import Int
from torch import Tensor

from .protocol import PROTOCOL_FIELDS
from .ranking_options import Setup
from .results import RetrievalResults

# Names, sources, and what is reported, may differ where the conventions are the same. Similarity and re-ranking are
# part of a model.
_CONVENTIONS = (
    *(("protocol", name) for name in PROTOCOL_FIELDS if name not in ("name", "source", "reports")),
    *(("setup", each.name) for each in fields(Setup) if each.name not in ("similarity", "rerank")),
)


def pair(a: RetrievalResults, b: RetrievalResults, names: tuple[str, str]) -> dict[str, tuple[Tensor, Tensor]]:
    """The numbers that both report, and "first_rank", by query in the order of `a`; `names` of both are for messages.

    Queries are matched by `query_index`. A number is NaN for the same queries in both, unless one is NaN throughout.

    Raises:
        ValueError: other queries, another gallery, other conventions, or no number that both report.
    """
    _check_conventions(a, b, names)
    reported = [name for name in a.averaged if name in b.per_query]
    if not reported:
        ours, theirs = (", ".join(map(repr, results.per_query)) for results in (a, b))
        raise ValueError(f"`{names[1]}` must report one of the numbers of `{names[0]}`, {ours}; got {theirs}.")
    if a.query_names != b.query_names:
        raise ValueError(f"`{names[1]}` must hold the queries of `{names[0]}`, by the same truth; got other names.")
    order = _order(a.query_index.cpu(), b.query_index.cpu(), names)
    # The queries of both must be the same. Of a model with embeddings that are not finite only they are known.
    is_ranked = not (a.counts.not_ranked or b.counts.not_ranked)
    of_ranked = ("num_positives", "num_candidates", "weight") if is_ranked else ()
    for name in ("query_identities", "query_cameras", *of_ranked):
        if name == "num_candidates" and (a.setup.cut or b.setup.cut):  # the length of a list
            continue
        _check_same(name, *_by_one_numbering(name, a, b), order, names)
    # The same queries have a value in both: only the scores may differ, not relevance.
    values = {name: (a.per_query[name].cpu(), b.per_query[name].cpu()[order]) for name in reported}
    for name, (one, other) in values.items() if is_ranked else ():
        for query in (one.isnan() != other.isnan()).nonzero()[:1, 0].tolist():
            came = f"{float(other[query])} and not {float(one[query])} for query {query}"
            rule = f"must have a value of {name!r} for the same queries as `{names[0]}`"
            raise ValueError(f"`{names[1]}` {rule}; got {came}.")
    return values | {"first_rank": (a.first_rank.cpu(), b.first_rank.cpu()[order])}


def _by_one_numbering(name: str, a: RetrievalResults, b: RetrievalResults) -> tuple[Tensor | None, Tensor | None]:
    """A value of each query of both; where a label came as names, the same name has one number in both."""
    label = name.removeprefix("query_")
    names_of_a, names_of_b = (results.names_of(label) for results in (a, b))
    ours, theirs = getattr(a, name), getattr(b, name)
    if not names_of_a or not names_of_b or theirs is None or names_of_a == names_of_b:
        return ours, theirs
    numbers = {text: number for number, text in names_of_a.items()}
    # A name that the first model lacks has a number that none of its names has.
    others = {number: numbers.get(text, -2) for number, text in names_of_b.items()}
    renumbered = [others.get(number, number) for number in theirs.tolist()]
    return ours, torch.tensor(renumbered, dtype=torch.int64, device=theirs.device)


def _check_conventions(a: RetrievalResults, b: RetrievalResults, models: tuple[str, str]) -> None:
    # A name that says what was changed, "market1501 with ...", is compared by its fields.
    our_name, their_name = (results.protocol.name.partition(" with ")[0] for results in (a, b))
    other = "" if our_name == their_name else f"protocol {their_name!r} and not {our_name!r}, such as "
    # Lists of an index, judged by labels, beside an exact search: what is right and what is dropped must be the same.
    # A list has an order of its own, and may be cut.
    is_of_index = a.setup.cut != b.setup.cut
    for part, name in _CONVENTIONS:
        if is_of_index and part == "setup" and name in ("ties", "cut"):
            continue
        ours, theirs = (getattr(getattr(results, part), name) for results in (a, b))
        if ours != theirs:
            came = f"{other}{name}={theirs!r} and not {ours!r}"
            raise ValueError(f"`{models[1]}` must be evaluated as `{models[0]}` was; got {came}.")


def _order(ours: Int[Tensor, " ours"], theirs: Int[Tensor, " theirs"], names: tuple[str, str]) -> Int[Tensor, " ours"]:
    """Where each of our queries is among theirs."""
    rule = f"`{names[1]}` must hold the queries of `{names[0]}`"
    if len(ours) != len(theirs):
        raise ValueError(f"{rule}; got {len(theirs)} queries and not {len(ours)}.")
    # Sorted, both are the same numbers; `order` takes theirs there, and `places` takes ours back.
    (ascending, places), (others, order) = ours.sort(stable=True), theirs.sort(stable=True)
    for one, other in zip(ascending[ascending != others].tolist(), others[ascending != others].tolist(), strict=True):
        raise ValueError(f"{rule}; got another `query_index`, in ascending order first {other} and not {one}.")
    return torch.empty_like(order).scatter_(0, places, order)


def _check_same(name: str, ours: Tensor | None, theirs: Tensor | None, order: Tensor, models: tuple[str, str]) -> None:
    if ours is None and theirs is None:
        return
    if ours is None or theirs is None:
        raise ValueError(f"`{models[1]}` must have `{name}` if and only if `{models[0]}` has; got them in one of both.")
    ours, theirs = ours.cpu(), theirs.cpu()[order]
    for query in (ours != theirs).nonzero()[:1, 0].tolist():
        came = f"{theirs[query].item()} and not {ours[query].item()} for query {query}"
        raise ValueError(f"`{models[1]}` must have the `{name}` of `{models[0]}`; got {came}.")
