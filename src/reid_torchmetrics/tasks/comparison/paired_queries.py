"""Pair the numbers of two results by query; refuse results that cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _hints
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.evaluation import PROTOCOL_FIELDS, RetrievalResults, Setup, summarize
from reid_torchmetrics.functional.retrieval.measures import parse_report
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, UNRETRIEVED, unchecked_ranks

Name = TypeVar("Name")

_PROTOCOL_CONVENTIONS = tuple(name for name in PROTOCOL_FIELDS if name not in ("name", "source", "reports"))
"""fields of a protocol that must be equal; names, sources and reported numbers may differ"""
_SETUP_CONVENTIONS = tuple(field.name for field in fields(Setup) if field.name not in ("similarity", "rerank"))
"""fields of a setup that must be equal; similarity and re-ranking are part of a model"""


def cut_as_lists(
    models: Mapping[Name, RetrievalResults],
) -> tuple[Mapping[Name, RetrievalResults], int | None]:
    """Rank the whole gallery as lists are ranked: in an order that no label decides, up to the longest list.

    Items with equal scores take the order of the gallery, under any tie policy.

    Returns:
        The results of all models; and the cutoff, None where nothing was cut.

    Raises:
        ValueError: results under another tie policy that do not hold the samples, so that they cannot be ranked again.
    """
    lengths = []
    for results in models.values():
        if results.setup.cut:
            lengths += results.num_candidates.tolist()
    if not lengths:
        return models, None
    cutoff = max(lengths)
    has_cut = False
    models_as_lists = dict(models)
    for name, results in models.items():
        if results.setup.cut or results.counts.not_ranked:
            continue
        models_as_lists[name] = _results_as_lists(name, results, cutoff)
        has_cut |= bool((results.num_candidates > cutoff).any())
    return models_as_lists, cutoff if has_cut else None


def _results_as_lists(name: object, results: RetrievalResults, cutoff: int) -> RetrievalResults:
    """Return the results where equal scores keep the order of the gallery, and each ranking ends after `cutoff`."""
    # A metric of a user's own leaves only values of its whole ranking in its results.
    reports = [name for name in results.protocol.reports if not parse_report(name)[0].is_precomputed]
    protocol = replace(results.protocol, reports=tuple(reports))
    if TIE_POLICIES[results.setup.ties].by_place is not None:
        rankings = results.rankings
    elif results.problem is not None:
        rankings = results.problem.rank(ties="stable")
    else:
        rule = "must be ranked with `ties='stable'` beside lists, in which items with equal scores have one order"
        raise ValueError(
            f"`{name}` {rule}; got {results.setup.ties!r} from a metric or a file, which hold no samples to rank again."
        )
    # No positive is tied, and those behind the cutoff are unretrieved.
    cut_rankings = []
    for ranking in rankings:
        ranks = ranking.ranks
        _, ordinal = segments.runs(1, ranks.num_positives)
        cut_ranks = unchecked_ranks(
            ranks.rank.where(ranks.rank <= cutoff, ordinal + UNRETRIEVED),
            ranks.num_positives,
            ranks.num_candidates.clamp(max=cutoff),
            judged=ranks.judged,
        )
        cut_rankings.append(replace(ranking, ranks=cut_ranks))
    ranking, cmc_ranking = cut_rankings
    setup = replace(results.setup, ties="stable")
    cut = summarize(ranking, protocol, setup, max_rank=len(results.cmc), cmc_ranking=cmc_ranking)
    return replace(cut, query_names=results.query_names)


def pair(a: RetrievalResults, b: RetrievalResults, names: tuple[str, str]) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the numbers that both report, and "first_rank", by query in the order of `a`.

    Queries are matched by `query_index`. A number is NaN for the same queries in both, unless one is NaN throughout.

    Args:
        a: results of one model.
        b: results of another model.
        names: of both models, for messages.

    Raises:
        ValueError: other queries, another gallery, other conventions, or no number that both report.
    """
    _check_conventions(a, b, names)
    reported = [name for name in a.averaged if name in b.per_query]
    if not reported:
        numbers_a = _hints.listed(a.per_query)
        numbers_b = _hints.listed(b.per_query)
        raise ValueError(f"`{names[1]}` must report one of the numbers of `{names[0]}`, {numbers_a}; got {numbers_b}.")
    if a.query_names != b.query_names:
        raise ValueError(f"`{names[1]}` must hold the queries of `{names[0]}`, by the same truth; got other names.")
    order = _order(a.query_index.cpu(), b.query_index.cpu(), names)

    # Queries without finite embeddings have identities and cameras only.
    is_ranked = not (a.counts.not_ranked or b.counts.not_ranked)
    for name in ("query_identities", "query_cameras"):
        values_a, values_b = _with_one_numbering(name, a, b)
        _check_same(name, values_a, values_b, order, names)
    if is_ranked:
        _check_same("num_positives", a.num_positives, b.num_positives, order, names)
        if not (a.setup.cut or b.setup.cut):  # else they are the lengths of lists
            _check_same("num_candidates", a.num_candidates, b.num_candidates, order, names)
        _check_same("weight", a.weight, b.weight, order, names)

    pairs = {name: (a.per_query[name].cpu(), b.per_query[name].cpu()[order]) for name in reported}
    for name, (values_a, values_b) in pairs.items():
        # Only the scores may differ, not relevance.
        differing = (values_a.isnan() != values_b.isnan()).nonzero()[:, 0]
        if is_ranked and len(differing):
            query = int(differing[0])
            rule = f"must have a value of {name!r} for the same queries as `{names[0]}`"
            got = f"{float(values_b[query])} and not {float(values_a[query])} for query {query}"
            raise ValueError(f"`{names[1]}` {rule}; got {got}.")
    pairs["first_rank"] = (a.first_rank.cpu(), b.first_rank.cpu()[order])
    return pairs


def _with_one_numbering(name: str, a: RetrievalResults, b: RetrievalResults) -> tuple[Tensor | None, Tensor | None]:
    """Return a label of each query of both; a name has one number in both."""
    label = name.removeprefix("query_")
    names_a = a.names_of(label)
    names_b = b.names_of(label)
    values_a = getattr(a, name)
    values_b = getattr(b, name)
    if not names_a or not names_b or values_b is None or names_a == names_b:
        return values_a, values_b
    numbers_a = {text: number for number, text in names_a.items()}
    # A name that the first model lacks has a number that none of its names has.
    new_numbers = {number: numbers_a.get(text, -2) for number, text in names_b.items()}
    renumbered = [new_numbers.get(number, number) for number in values_b.tolist()]
    return values_a, torch.tensor(renumbered, dtype=torch.int64, device=values_b.device)


def _check_conventions(a: RetrievalResults, b: RetrievalResults, models: tuple[str, str]) -> None:
    """Raise unless both were evaluated by the same conventions.

    Lists of an index, judged by labels, may be compared with an exact search: a list has an order of its own, and may
    be cut. See `cut_as_lists`.
    """
    conventions_a = _conventions(a)
    conventions_b = _conventions(b)
    differing = [name for name, value in conventions_a.items() if value != conventions_b[name]]
    is_index_with_search = a.setup.cut != b.setup.cut
    if is_index_with_search:
        differing = [name for name in differing if name not in ("ties", "cut")]
    if not differing:
        return

    # A name with changes, "market1501 with ...", is compared by its fields.
    protocol_a = a.protocol.name.partition(" with ")[0]
    protocol_b = b.protocol.name.partition(" with ")[0]
    name = differing[0]
    got = f"{name}={conventions_b[name]!r} and not {conventions_a[name]!r}"
    if protocol_a != protocol_b:
        got = f"protocol {protocol_b!r} and not {protocol_a!r}, such as {got}"
    raise ValueError(f"`{models[1]}` must be evaluated as `{models[0]}` was; got {got}.")


def _conventions(results: RetrievalResults) -> dict[str, object]:
    """Return the fields of the protocol and of the setup that must be equal in both results."""
    conventions = {name: getattr(results.protocol, name) for name in _PROTOCOL_CONVENTIONS}
    conventions.update({name: getattr(results.setup, name) for name in _SETUP_CONVENTIONS})
    return conventions


def _order(
    index_a: Int[Tensor, " queries_a"], index_b: Int[Tensor, " queries_b"], names: tuple[str, str]
) -> Int[Tensor, " queries_a"]:
    """Return the position in b of each query of a."""
    rule = f"`{names[1]}` must hold the queries of `{names[0]}`"
    if len(index_a) != len(index_b):
        raise ValueError(f"{rule}; got {len(index_b)} queries and not {len(index_a)}.")
    # Sorted, both are the same numbers.
    sorted_a, order_a = index_a.sort(stable=True)
    sorted_b, order_b = index_b.sort(stable=True)
    differing = (sorted_a != sorted_b).nonzero()[:, 0]
    if len(differing):
        first = int(differing[0])
        got = f"{int(sorted_b[first])} and not {int(sorted_a[first])}"
        raise ValueError(f"{rule}; got another `query_index`, in ascending order first {got}.")
    return torch.empty_like(order_b).scatter_(0, order_a, order_b)


def _check_same(
    name: str, values_a: Tensor | None, values_b: Tensor | None, order: Tensor, models: tuple[str, str]
) -> None:
    """Raise unless queries have the same value in both; `order` has the position in b of each query of a."""
    if values_a is None and values_b is None:
        return
    if values_a is None or values_b is None:
        raise ValueError(f"`{models[1]}` must have `{name}` if and only if `{models[0]}` has; got them in one of both.")
    values_a = values_a.cpu()
    values_b = values_b.cpu()[order]
    differing = (values_a != values_b).nonzero()[:, 0]
    if len(differing):
        query = int(differing[0])
        got = f"{values_b[query].item()} and not {values_a[query].item()} for query {query}"
        raise ValueError(f"`{models[1]}` must have the `{name}` of `{models[0]}`; got {got}.")
