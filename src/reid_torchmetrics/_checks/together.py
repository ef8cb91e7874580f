"""Checks of arguments that must, or must not, come together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


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


def both_or_neither(first: str, first_value: object, second: str, second_value: object) -> None:
    """Raise if exactly one of two arguments that belong together is None."""
    if (first_value is None) != (second_value is None):
        given, missing = (second, first) if first_value is None else (first, second)
        raise ValueError(f"`{first}` and `{second}` must be given together; got `{given}` without `{missing}`.")


def given_throughout(argument: str, *, given: bool, given_before: bool) -> None:
    """Raise if an optional argument of `update` is given in one batch and left out in another."""
    if given != given_before:
        came = "a batch with it after batches without" if given else "a batch without it after batches with it"
        raise ValueError(f"`{argument}` must be given in every batch or in none; got {came}.")


def given_for_all(argument: str, length: int, total: int) -> None:
    """Raise unless merged samples all have, or all lack, an optional label."""
    if length != total:
        raise ValueError(f"`{argument}` must be given for all samples or for none; got it for {length} of {total}.")


def alike(argument: str, what: str, values: Sequence[object]) -> None:
    """Raise unless all parts of `argument` have the same value of something."""
    if len(set(values)) > 1:
        raise ValueError(f"`{argument}` must all have the same {what}; got {', '.join(map(repr, values))}.")


def no_empty_target(num_empty: int, num_queries: int) -> None:
    """Raise because `empty_target_action="error"` met queries without a positive."""
    if num_empty:
        raise ValueError(
            f"`empty_target_action` 'error' allows no query without a positive; got {num_empty} of {num_queries}."
        )


def no_dropped_pairs(argument: str, *, drops: bool) -> None:
    """Raise if galleries are drawn from queries while pairs are dropped: no one gallery serves all queries then."""
    if drops:
        raise ValueError(f"`{argument}` must come without a camera rule or another that drops pairs; got one.")


def one_gallery(argument: str, *, shared: bool) -> None:
    """Raise if every query draws a gallery of its own from the queries."""
    if not shared:
        raise ValueError(f"`{argument}` must come with `shared`, one gallery for all queries; got `shared` False.")


def belong_together(scores: tuple[int, int], relevance: tuple[int, int]) -> None:
    """Raise unless scores were made for the relevance that they are evaluated with."""
    if scores != relevance:
        raise ValueError(
            f"`scores` must be made for the same `relevance`; got {scores[0]} x {scores[1]} scores for"
            f" {relevance[0]} queries and {relevance[1]} kept gallery items."
        )


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


def own_positions(argument: str, *, num_unknown: int) -> None:
    """Raise if galleries are drawn from queries whose own places in the gallery are not known."""
    if num_unknown:
        raise ValueError(
            f"`{argument}` must come with every query's own place in the gallery, that is leave-one-out or"
            f" `self_index`; got {num_unknown} queries without."
        )


def can_draw_from(argument: str, *, has_identities: bool, has_cameras: bool) -> None:
    """Raise unless galleries can be drawn: by identities, and by cameras where strata are those of both."""
    if not has_identities:
        raise ValueError(
            f"`{argument}` must come from identities, of which galleries are drawn; got lists of positives."
        )
    if not has_cameras:
        raise ValueError(f"`{argument}` must know cameras where `per` is 'identity_and_camera'; got none.")


def lists_given(protocol: str, *, needs_lists: bool, given: bool) -> None:
    """Raise if a benchmark that names positives and junk of each query is evaluated by labels."""
    if needs_lists and not given:
        raise ValueError(f"`protocol` {protocol!r} needs `ground_truth`, lists for every query; got labels.")
