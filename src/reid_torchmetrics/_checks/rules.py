"""Rules about protocols, labels and results that are not worded where their values are known yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

_BESIDE_LISTS = ("bbx", "query")
"""what the files of benchmarks hold beside lists: the box of the query (revisitop, Oxford), its image (Oxford)"""


def confidence(argument: str, value: float) -> None:
    """Raise unless `value` is a number between 0 and 1, neither of them."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{argument}` must be a number; got {type(value).__name__}.")
    if not 0 < value < 1:
        raise ValueError(f"`{argument}` must lie between 0 and 1; got {value}.")


def generator(argument: str, value: object) -> None:
    """Raise unless `value` is a random number generator."""
    if not isinstance(value, torch.Generator):
        raise TypeError(f"`{argument}` must be a torch.Generator; got {type(value).__name__}.")


def known(argument: str, values: Collection[str], names: Collection[str]) -> None:
    """Raise if `values` has a name that is not in `names`."""
    unknown = [value for value in values if value not in names]
    if unknown:
        raise ValueError(f"`{argument}` must be some of {', '.join(names)}; got {unknown[0]!r}.")


def plain_normalizer(rule: str, normalizer: str) -> None:
    """Raise if an interpolated rule comes with a normalizer that it does not use."""
    if normalizer != "positives":
        raise ValueError(f"`normalizer` must be 'positives' with rule {rule!r}; got {normalizer!r}.")


def drawn_cmc(argument: str, *, given: bool, is_plain: bool) -> None:
    """Raise if a CMC over drawn galleries is asked for in another mode than the first match."""
    if given and not is_plain:
        raise ValueError(f"`{argument}` needs mode 'first_match'; got another.")


def weighs(argument: str, *, weighs: bool, draws: bool) -> None:
    """Raise if images take turns as the gallery image although no gallery is drawn."""
    if weighs and not draws:
        raise ValueError(f"`{argument}` needs a drawn gallery; got no `draw`.")


def no_draw(argument: str, *, draws: bool) -> None:
    """Raise if something is asked for that has no expectation over drawn galleries."""
    if draws:
        raise ValueError(f"`{argument}` must come with a protocol that draws no gallery; got one that does.")


def can_draw(name: str, *, can: bool) -> None:
    """Raise if a metric has no expectation over the galleries that its protocol draws."""
    if not can:
        raise ValueError(f"`protocol` must not draw galleries for {name}; got one that does.")


def names(argument: str, value: object) -> None:
    """Raise unless `value` is a tuple of names."""
    if isinstance(value, str):
        raise TypeError(f"`{argument}` must be a tuple or list of names; got {value!r}, so write ({value!r},).")
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"`{argument}` must be a tuple or list of names; got {type(value).__name__}.")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"`{argument}` must hold names only; got {name!r}.")


def lists_by_name(argument: str, values: object, num_queries: int) -> None:
    """Raise unless `values` holds a mapping for each query."""
    if isinstance(values, (str, bytes, Tensor, Mapping)) or not isinstance(values, Sequence):
        raise TypeError(f"`{argument}` must be a sequence of mappings, one per query; got {type(values).__name__}.")
    for lists in values:
        if not isinstance(lists, Mapping):
            raise TypeError(
                f"`{argument}` must hold mappings of names to gallery positions; got {type(lists).__name__}."
            )
    if len(values) != num_queries:
        raise ValueError(f"`{argument}` must hold one mapping for each of {num_queries} queries; got {len(values)}.")


def named_lists(
    argument: str, values: Sequence[Mapping[str, object]], positive: Collection[str], junk: Collection[str]
) -> None:
    """Raise unless the lists of every query are some of `positive` and `junk`, and one is of `positive` at least.

    A list that nobody names would be a list of negatives, which nobody means.
    """
    for query, lists in enumerate(values):
        if not set(positive) & set(lists):
            wanted = ", ".join(map(repr, positive))
            raise ValueError(f"`{argument}` must name one of {wanted} for every query; got {list(lists)} for {query}.")
        unknown = [name for name in lists if name not in {*positive, *junk, *_BESIDE_LISTS}]
        if unknown:
            known = ", ".join(map(repr, dict.fromkeys((*positive, *junk))))
            raise ValueError(
                f"`{argument}` must hold lists that `positive_lists` or `junk_lists` of the protocol name, {known};"
                f" got {unknown[0]!r} for query {query}."
            )


def boolean_mask(argument: str, value: object, length: int, device: torch.device) -> None:
    """Raise unless `value` is a bool tensor [length] on `device`."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        came = str(value.dtype) if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"`{argument}` must be True, False, None or a bool tensor; got {came}.")
    if value.ndim != 1 or len(value) != length:
        raise ValueError(f"`{argument}` must have shape [{length}]; got {list(value.shape)}.")
    if value.device != device:
        raise ValueError(f"`{argument}` must be on the device of its companions, {device}; got {value.device}.")


def listed_once(argument: str, values: Sequence[Tensor]) -> None:
    """Raise if a query lists a position twice; each of `values` is sorted."""
    for query, value in enumerate(values):
        repeated = value[1:][value[1:] == value[:-1]]
        if len(repeated):
            item = int(repeated[0])
            raise ValueError(
                f"`{argument}` must list a gallery item once for a query; got item {item} twice for query {query}."
            )


def has_cameras(argument: str, *, given: bool) -> None:
    """Raise because an option is about cameras that nobody gave."""
    if not given:
        raise ValueError(f"`{argument}` must come with cameras; got no `gallery_cameras`.")


def relevance_given(labels: Sequence[str], *, lists: bool) -> None:
    """Raise unless relevance comes either as labels of both sides or as lists; `labels` names those that are given."""
    if lists and labels:
        raise ValueError(f"`ground_truth` must come without labels; got `{labels[0]}` too.")
    if not lists and not {"query_identities", "gallery_identities"} <= set(labels):
        got = "only " + " and ".join(f"`{name}`" for name in labels) if labels else "none of them"
        raise ValueError(f"`query_identities` and `gallery_identities` must be given, or `ground_truth`; got {got}.")


def without_labels(options: Collection[str], about_labels: Collection[str]) -> None:
    """Raise if an option is about labels although relevance comes as lists."""
    given = [option for option in options if option in about_labels]
    if given:
        raise ValueError(f"`{given[0]}` must come with labels; got `ground_truth`, lists, which it cannot act on.")


def in_results(name: str, *, given: bool) -> None:
    """Raise if results do not hold what is asked for."""
    if not given:
        raise ValueError(f"`{name}` must have been given to the evaluation; these results do not hold it.")


def with_embeddings(method: str, *, given: bool) -> None:
    """Raise if something is asked of results of a metric that needs the embeddings."""
    if not given:
        raise ValueError(
            f"`{method}` must be asked of results of `functional.retrieval.evaluate`, which is given the embeddings;"
            " got results of a metric, which hold none."
        )


def can_pool(argument: str, labels: Mapping[str, object], *, has_gallery: bool) -> None:
    """Raise unless queries can be pooled: they have identities, no sequences, and a gallery of their own."""
    if labels["query_identities"] is None or labels["query_sequences"] is not None or not has_gallery:
        raise ValueError(f"`{argument}` needs `query_identities` and a `gallery`, and no sequences; got otherwise.")


def without_gallery(argument: str, *, given: bool) -> None:
    """Raise if labels of a gallery come without the gallery."""
    if given:
        raise ValueError(f"`{argument}` must come with `gallery`; got it without.")


def searched_among_others(protocol: str, *, leave_one_out: bool, has_gallery: bool) -> None:
    """Raise if a gallery is given under a protocol that searches every query among the other queries."""
    if leave_one_out and has_gallery:
        raise ValueError(
            f"`gallery` must be left out under protocol {protocol!r}, which searches every query among the others, so"
            " that all samples are given once, as `query`; got a gallery."
        )


def leave_one_out_roles(num_queries_only: int) -> None:
    """Raise if samples are queries and no gallery items under a protocol that searches each among the others."""
    if num_queries_only:
        raise ValueError(
            "`is_query` must be left out under a leave-one-out protocol, as every sample is a query and, for all"
            f" others, a gallery item; got {num_queries_only} samples that are queries only."
        )


def own_places(protocol: str, *, num_unknown: int) -> None:
    """Raise if queries do not know their own places although each is searched among the others."""
    if num_unknown:
        raise ValueError(
            f"`self_index` must hold every query's own place in the gallery under protocol {protocol!r}, which searches"
            f" every query among the others; got {num_unknown} queries without."
        )


def lists_given(protocol: str, *, needs_lists: bool, given: bool) -> None:
    """Raise if a benchmark that names positives and junk of each query is evaluated by labels."""
    if needs_lists and not given:
        raise ValueError(f"`protocol` {protocol!r} needs `ground_truth`, lists for every query; got labels.")


def given_for_all(argument: str, length: int, total: int) -> None:
    """Raise unless merged samples all have, or all lack, an optional label."""
    if length != total:
        raise ValueError(f"`{argument}` must be given for all samples or for none; got it for {length} of {total}.")
