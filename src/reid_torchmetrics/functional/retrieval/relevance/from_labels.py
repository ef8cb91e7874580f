"""Relevance from identities, or from positions within a radius, with rules for cameras, clothes and other labels."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias, get_args

import torch
from jaxtyping import Bool, Int, Integer, Real, Shaped
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics._registries import Registry
from reid_torchmetrics._signatures import with_typed_options

from .label_names import MISSING, in_one_order, number_names
from .labels import (
    AGREEMENT_RULES,
    EXTRA,
    LABEL_RULES,
    LABELS,
    RELEVANCE_LABELS,
    SEVERAL_LABELS,
    SIDES,
    LabelValues,
    SideLabels,
    as_mapping,
    check_agreement,
    check_alike,
    check_needed,
    length_of,
    num_labels_of,
    pack_columns,
    select_samples,
    why_needed,
)
from .relevance import GivenJunkPairs, LabelRule, Relevance, junk_pairs_of

SAME_CAMERA_RULES = get_args(_names.CameraRule)
"""Drop the gallery items with the query's identity and camera (Market-1501), every gallery item of the query's camera
(open-reid's CUHK03), every gallery item of another camera, or nothing."""
LABEL_OPTIONS = (
    "same_camera",
    "camera_map",
    "search_cameras",
    "junk_identities",
    "missing_identities",
    *LABEL_RULES,
    "radius",
    *AGREEMENT_RULES,
)
"""the options of `find_relevance` that need labels, and have no meaning for lists of positives"""
Runs: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""the start and the length of the run of each query, and the items of all runs"""
POSITIVES_BY_OPTION: Registry[Callable[[Tensor, Tensor, Any], Runs]] = Registry("POSITIVES_BY_OPTION", {})
"""functions of labels of queries and of gallery items and the value of an option, which tasks add; by the option"""
_FEW_LABELS = 8  # up to this number each label is compared: to copy a list of labels, the host waits for a device
_MAX_DIFFERING = 4  # labels that must differ: with more, counting pair by pair costs less than a sum over their sets


@with_typed_options(SideLabels)
def find_relevance(
    query_identities: Shaped[Tensor, "queries ..."] | _checks.IntegersOrNames | _checks.SeveralLabels | None = None,
    gallery_identities: Shaped[Tensor, "gallery ..."] | _checks.IntegersOrNames | _checks.SeveralLabels | None = None,
    query_cameras: Real[Tensor, " queries"] | _checks.IntegersOrNames | None = None,
    gallery_cameras: Real[Tensor, " gallery"] | _checks.IntegersOrNames | None = None,
    *,
    same_camera: _names.CameraRule = "same_identity",
    camera_map: Mapping[int | str, int | str] | None = None,
    search_cameras: Collection[int | str] | None = None,
    junk_identities: Collection[int | str] = (-1,),
    missing_identities: _names.MissingLabels = "error",
    clothes: _names.ClothesRule = "keep",
    radius: float | None = None,
    must_agree: Collection[str] = (),
    must_differ: Collection[str] = (),
    junk_pairs: GivenJunkPairs | None = None,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    **labels: Unpack[SideLabels],
) -> Relevance:
    """Find the positives, negatives and junk of every query by the labels.

    A positive has the query's identity; identity 0 is an ordinary identity (a distractor). Where samples have several
    labels, identities are a matrix [N, labels] of bools or of 0 and 1, and a positive shares at least one label with
    the query; a sample without a label is a query without positives, and a negative in the gallery. Labels are
    integers, or names for queries and gallery items alike, which become the numbers of `number_identities`: "-1" is -1.
    Then rules list names. With a `radius` a positive is an item within that distance of the query's position:
    |p - q| <= radius in float64. The difference is computed directly, as the expanded square is wrong for coordinates
    of maps.

    Args:
        query_identities: identities of the queries, or several labels as a matrix; with a `radius` they
            only decide what is junk.
        gallery_identities: identities of the gallery.
        query_cameras: cameras of the queries; None together with `gallery_cameras` means that no camera rule applies.
        gallery_cameras: cameras of the gallery.
        same_camera: "same_identity" drops the gallery items with the query's identity and camera (Market-1501),
            "all" drops every item of the query's camera (open-reid's CUHK03), "only" every item of another camera,
            "keep" drops nothing.
        camera_map: cameras that the camera rule treats as another one: {3: 2} says that cameras 2 and 3
            show the same place (SYSU-MM01).
        search_cameras: cameras to search; gallery items of other cameras are dropped for every query. None keeps all.
        junk_identities: gallery items of these identities are dropped for every query.
        missing_identities: treatment of samples with a missing identity (None, NaN or ""): "junk" drops them from the
            gallery, and leaves queries without a positive; "error" raises.
        clothes: "drop_same" drops the gallery items with the query's identity and clothes (changed clothes),
            "drop_other" drops the items with its identity and other clothes (same clothes), "keep" drops nothing.
        radius: the largest distance of a positive, in the unit of the positions.
        must_agree: labels that a gallery item must share with the query, such as ("side",); an item that differs in one
            of them is dropped, whatever its identity. The names are keys of `query_labels` and `gallery_labels`, or
            "cameras" or "clothes". Cameras are compared under `camera_map`; ("cameras",) is `same_camera="only"`.
        must_differ: labels in which a gallery item must differ from the query, such as ("batch",); an item that agrees
            in one of them is dropped, whatever its identity. ("cameras",) is `same_camera="all"`.
        junk_pairs: a bool mask of all pairs [queries, gallery], True for pairs to drop; or a function of positions of
            queries [q] and of gallery items [g] that returns a bool mask [q, g] of the pairs to drop. It is called for
            blocks of pairs, more than once for a pair.
        self_index: every query's own position in the gallery, or -1: leave-one-out drops it by position.
        labels: more labels of queries and of gallery items. `query_sequences` and `gallery_sequences`, int: the
            sequence or track of a sample; gallery items of the query's sequence are dropped, whatever their identity
            (open-metric-learning). `..._clothes`, int. `..._positions`: coordinates [N] or [N, 1 to 3]. `..._labels`: a
            mapping of the names in `must_agree` and `must_differ` to integers or names, such as {"side": [...]}. A
            missing value (None, NaN or "") is an error as for cameras, and -1 is an ordinary label.

    Raises:
        TypeError: a label of another dtype, or `junk_identities` does not hold ints or names.
        ValueError: lengths, devices or options that do not fit; labels for queries or gallery alone; labels that are
            not whole numbers; a rule with integers for labels that are names, or the reverse; or a label that a rule
            needs is missing.
    """
    label_rules = {"clothes": clothes}
    rules: dict[str, Any] = {
        **label_rules,
        "same_camera": same_camera,
        "camera_map": camera_map,
        "search_cameras": search_cameras,
        "junk_identities": junk_identities,
        "missing_identities": missing_identities,
        "radius": radius,
        "must_agree": must_agree,
        "must_differ": must_differ,
    }
    arguments: dict[str, Any] = {
        "query_identities": query_identities,
        "gallery_identities": gallery_identities,
        "query_cameras": query_cameras,
        "gallery_cameras": gallery_cameras,
        **labels,
    }
    _check_lists(rules)
    check_agreement(rules)

    # Replace names by numbers, and check the labels.
    arguments, vocabulary = number_names(arguments, rules)
    self_index, *tensors = _arrays.as_tensors(self_index, *arguments.values())
    arguments = dict(zip(arguments, tensors, strict=True))
    check_needed(why_needed(rules), arguments, "query_", "gallery_")
    query, gallery = check_labels(arguments)
    check_sides(query, gallery, self_index)
    _checks.one_of("same_camera", same_camera, SAME_CAMERA_RULES)
    for name, rule in label_rules.items():
        _checks.one_of(name, rule, LABEL_RULES[name])
    return relevance_of(query, gallery, vocabulary.rules_by_number(rules), self_index, junk_pairs)


def relevance_of(
    query: LabelValues,
    gallery: LabelValues,
    rules: Mapping[str, Any],
    self_index: Tensor | None,
    junk_pairs: GivenJunkPairs | None,
) -> Relevance:
    """Find the relevance by checked labels; the options in `rules` list numbers, not names."""
    has_several = num_labels_of(query) > 0
    radius = rules["radius"]
    if has_several:
        _check_several(radius, rules["junk_identities"])
    if self_index is not None:
        self_index = self_index.long()
    # Drop junk from the gallery.
    num_gallery = length_of(gallery)
    is_junk = _with_one_of(rules["junk_identities"], query, "identities")
    kept = _find_kept(gallery, rules["junk_identities"], rules["search_cameras"])
    num_kept = num_gallery
    if kept is not None:
        gallery = select_samples(gallery, kept)
        num_kept = len(kept)
    own_column = _own_column(self_index, kept, num_gallery)

    # List the items that are positives unless a rule drops them.
    shared = None
    if has_several:
        # Items are not listed: they are found tile by tile, so that their runs have a length only.
        shared = SEVERAL_LABELS["SharedLabels"](query["identities"], gallery["identities"], own_column)
        run_length = shared.lengths()
        run_start, order = torch.zeros_like(run_length), run_length[:0]
    elif radius is not None:
        run_start, run_length, order = POSITIVES_BY_OPTION["radius"](query["positions"], gallery["positions"], radius)
        is_junk = torch.zeros_like(is_junk)  # items of other identities may be near
    else:
        run_start, run_length, order = _runs(query["identities"], gallery["identities"])

    camera_map = rules["camera_map"] or {}
    query_labels = _by_name(query, rules, camera_map)
    gallery_labels = _by_name(gallery, rules, camera_map)
    label_rules = tuple(
        _compare(rule, query_labels, gallery_labels)
        for rule in label_rules_of(rules)
        if query_labels.keys() >= set(rule.labels)
    )
    return Relevance(
        num_gallery=num_gallery,
        kept=kept,
        num_kept=num_kept,
        order=order,
        run_start=run_start,
        run_length=run_length,
        is_junk=is_junk,
        self_index=self_index,
        own_column=own_column,
        rules=label_rules,
        num_dropped=_count_dropped(label_rules, num_kept),
        junk_pairs=junk_pairs_of(junk_pairs, len(is_junk), num_gallery, is_junk.device),
        query_identities=None if has_several else query.get("identities"),
        gallery_identities=None if has_several else gallery.get("identities"),
        query_cameras=query.get("cameras"),
        gallery_cameras=gallery.get("cameras"),
        shared=shared,
    )


def _check_lists(lists: Mapping[str, Any]) -> None:
    """Raise unless options that list labels hold numbers or names."""
    _checks.one_of("missing_identities", lists["missing_identities"], _names.MissingLabels)
    _checks.integers_or_names("junk_identities", lists["junk_identities"])
    check_camera_map(lists["camera_map"])
    if lists["search_cameras"] is not None:
        _checks.integers_or_names("search_cameras", lists["search_cameras"])


def _check_several(radius: float | None, junk_identities: Collection[int]) -> None:
    """Raise if an option needs one identity for each sample; called where samples have several labels."""
    if radius is not None:
        raise ValueError(f"`radius` must be None where `identities` are a matrix of labels; got {radius!r}.")
    if set(junk_identities) - {-1, MISSING}:
        raise ValueError(
            "`junk_identities` must list nothing but -1 where `identities` are a matrix of labels, as samples have no"
            f" identity of their own; got {tuple(junk_identities)}."
        )


def _find_kept(
    gallery: LabelValues, junk_identities: Collection[int], search_cameras: Collection[int] | None
) -> Int[Tensor, " kept"] | None:
    """Find the gallery items without a junk identity, in cameras that are searched; None for all items."""
    is_dropped = _with_one_of(junk_identities, gallery, "identities")
    if search_cameras is not None:
        if "cameras" not in gallery:
            raise ValueError("`search_cameras` must come with cameras; got no `gallery_cameras`.")
        is_dropped |= ~_with_one_of(search_cameras, gallery, "cameras")
    return (~is_dropped).nonzero()[:, 0] if bool(is_dropped.any()) else None


def check_labels(arguments: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the labels of queries and of gallery items, in the dtypes of the table.

    Raises:
        TypeError: a label of another dtype.
        ValueError: labels of one side with different lengths, labels on several devices, or values that are no labels.
    """
    device = next((value.device for value in arguments.values() if isinstance(value, Tensor)), None)
    query: dict[str, Tensor] = {}
    gallery: dict[str, Tensor] = {}
    for name in RELEVANCE_LABELS:
        for side, labels in zip(SIDES, (query, gallery), strict=True):
            argument = f"{side}_{name}"
            value = arguments.get(argument)
            if value is not None:
                length = length_of(labels) if labels else None
                labels[name] = LABELS[name].check(argument, value, length, device)
    return query, gallery


def check_sides(query: LabelValues, gallery: LabelValues, self_index: Tensor | None) -> None:
    """Raise unless queries and gallery items have the same labels, as well as a query and its own item."""
    unpaired = query.keys() ^ gallery.keys()
    if unpaired:
        name, *_ = unpaired
        present, absent = SIDES if name in query else reversed(SIDES)
        raise ValueError(
            f"`query_{name}` and `gallery_{name}` must be given together; got `{present}_{name}` without"
            f" `{absent}_{name}`."
        )
    if "identities" in query:
        check_alike("gallery_identities", gallery["identities"], "`query_identities`", query["identities"])
    if self_index is not None:
        values, *_ = query.values()
        _checks.integer_labels("self_index", self_index, len(values), values.device)
        _checks.in_range("self_index", self_index, -1, length_of(gallery))
        for name, query_labels in query.items():
            _check_self(LABELS[name].singular, query_labels, gallery[name], self_index.long())


def _check_self(label: str, query_labels: Tensor, gallery_labels: Tensor, self_index: Tensor) -> None:
    """Raise if the item at `self_index` has another label than its query."""
    queries = (self_index >= 0).nonzero()[:, 0]
    items = self_index[queries]
    differs = pack_columns({label: query_labels}, queries) != pack_columns({label: gallery_labels}, items)
    wrong = differs.any(1).nonzero()[:, 0]
    if len(wrong):
        raise ValueError(
            "`self_index` must point at gallery items with the labels of the query; got item"
            f" {int(items[wrong[0]])} for query {int(queries[wrong[0]])}, of another {label}."
        )


def check_camera_map(value: object) -> None:
    """Raise unless `value` is None or a mapping of ints or names to ints or names that are no keys."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"`camera_map` must be a mapping of ints or names, or None; got {type(value).__name__}.")
    _checks.integers_or_names("camera_map", [*value.keys(), *value.values()])
    targets = {target for label, target in value.items() if target != label}
    both = list(in_one_order(targets.intersection(value)))
    if both:
        raise ValueError(f"`camera_map` must map to cameras that are not mapped themselves; got {both} on both sides.")


class DropRule(NamedTuple):
    """A rule that drops the gallery items with the query's labels, or those that differ in one of these labels."""

    labels: tuple[str, ...]
    drops_different: bool = False
    of_identity: bool = False
    """whether it drops items of the query's identity alone"""


_RULES_BY_WORD = {
    "same_identity": DropRule((), of_identity=True),
    "drop_same": DropRule((), of_identity=True),
    "drop_other": DropRule((), drops_different=True, of_identity=True),
    "all": DropRule(()),
    "only": DropRule((), drops_different=True),
}
"""rules for a label by the value of `same_camera` or of the option with the label's name"""


def label_rules_of(options: Mapping[str, Any]) -> list[DropRule]:
    """Translate options of `find_relevance` into rules; some options spell the same rule.

    same_camera="same_identity"                         DropRule(("cameras",), of_identity=True)
    same_camera="all"       must_differ=("cameras",)    DropRule(("cameras",))
    same_camera="only"      must_agree=("cameras",)     DropRule(("cameras",), drops_different=True)
    clothes="drop_other"                                DropRule(("clothes",), drops_different=True, of_identity=True)
    """
    rules = [DropRule(("sequences",))]  # items of the query's sequence are dropped wherever there are sequences
    words = {"cameras": options["same_camera"]}
    words.update((name, options[name]) for name in LABEL_RULES if name in options)
    for label, word in words.items():
        if word != "keep":
            rules.append(_RULES_BY_WORD[word]._replace(labels=(label,)))
    if options["must_agree"]:
        # An item that differs in some label differs in the combination of all.
        rules.append(DropRule(tuple(sorted(set(options["must_agree"]))), drops_different=True))
    rules += [DropRule((name,)) for name in sorted(set(options["must_differ"]))]
    return rules


def _compare(rule: DropRule, query: LabelValues, gallery: LabelValues) -> LabelRule:
    """Return the rule for the labels of queries and of kept gallery items."""
    query_numbers, gallery_numbers = _number_rows(
        [query[name] for name in rule.labels], [gallery[name] for name in rule.labels]
    )
    num_dropped = None
    if not rule.of_identity:
        num_same = _runs(query_numbers, gallery_numbers)[1]
        num_dropped = len(gallery_numbers) - num_same if rule.drops_different else num_same
    return LabelRule(query_numbers, gallery_numbers, num_dropped, rule.drops_different)


def _number_rows(query: Sequence[Tensor], gallery: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return one number for each combination of several labels, the same for queries and gallery items."""
    if len(query) == 1:
        return query[0], gallery[0]
    num_queries = len(query[0])
    rows = torch.cat([torch.stack(list(query), dim=1), torch.stack(list(gallery), dim=1)])
    numbers = rows.unique(dim=0, return_inverse=True)[1]
    return numbers[:num_queries], numbers[num_queries:]


def _by_name(labels: LabelValues, options: Mapping[str, Any], camera_map: Mapping[int, int]) -> dict[str, Tensor]:
    """Return the labels of queries or gallery items by name, with extra labels, and with cameras under `camera_map`."""
    by_name = dict(labels)
    if camera_map and "cameras" in by_name:
        cameras = by_name["cameras"]
        by_name["cameras"] = cameras.clone()
        for camera, target in camera_map.items():
            by_name["cameras"][cameras == camera] = target
    if EXTRA in by_name:
        by_name.update(as_mapping(by_name[EXTRA], options))
    return by_name


def _count_dropped(rules: Sequence[LabelRule], num_kept: int) -> Int[Tensor, " queries"] | None:
    """Count the kept items, listed or not, that several rules drop together; None if this is not needed or too slow.

    An item is left if it agrees in every label that must agree, and in none that must differ. By inclusion and
    exclusion the number is a sum over all sets of the labels that must differ, with one term for each set: the number
    of items that agree in the set and in all labels that must agree.

    For labels a that must agree, and b and c that must differ:

        num_left = N(a) - N(a, b) - N(a, c) + N(a, b, c)    N(a, b): items with the query's a and b
    """
    whole = [rule for rule in rules if rule.num_dropped is not None]
    agreeing = [rule for rule in whole if rule.drops_different]
    differing = [rule for rule in whole if not rule.drops_different]
    if len(whole) < 2 or len(differing) > _MAX_DIFFERING:
        return None
    num_left = torch.zeros_like(whole[0].query)
    for size in range(len(differing) + 1):
        sign = -1 if size % 2 else 1
        for labels in itertools.combinations(differing, size):
            compared = [*agreeing, *labels]
            if not compared:
                num_left += num_kept
                continue
            numbers = _number_rows([rule.query for rule in compared], [rule.gallery for rule in compared])
            num_left += sign * _runs(*numbers)[1]
    return num_kept - num_left


def _runs(query_labels: Tensor, gallery_labels: Tensor) -> Runs:
    """Find the run of items with each query's label: its start, its length, and the items that have such labels.

    For queries 5, 3 and a gallery 3, 4, 5, 3 the items are 0, 3, 2, the starts 2, 0, and the lengths 1, 2.
    """
    query_labels = query_labels.contiguous()  # searchsorted warns otherwise
    # Often few items have the label of a query: sort only them.
    items = _are_among(query_labels.unique(), gallery_labels).nonzero()[:, 0]
    ordered, order = gallery_labels[items].sort(stable=True)
    start = torch.searchsorted(ordered, query_labels)
    length = torch.searchsorted(ordered, query_labels, right=True) - start
    return start, length, items[order]


def _with_one_of(targets: Collection[int], labels: LabelValues, name: str) -> Bool[Tensor, " samples"]:
    """Mark the samples with one of some values of a label; none if samples lack it or have several values."""
    values, *_ = labels.values()
    if name not in labels or labels[name].ndim > 1:
        return torch.zeros(len(values), dtype=torch.bool, device=values.device)
    return _are_among(sorted(targets), labels[name])


def _are_among(
    targets: Sequence[int] | Int[Tensor, " targets"], labels: Int[Tensor, " samples"]
) -> Bool[Tensor, " samples"]:
    """Mark the samples with one of some ascending labels."""
    if not len(targets):
        return torch.zeros_like(labels, dtype=torch.bool)
    if len(targets) <= _FEW_LABELS:
        return reduce(operator.ior, (labels == label for label in targets))
    ascending = torch.as_tensor(targets, dtype=torch.int64, device=labels.device)
    place = torch.searchsorted(ascending, labels.contiguous())  # it warns of labels that are not contiguous
    place = place.clamp_(max=len(ascending) - 1)
    return ascending[place] == labels


def _own_column(self_index: Tensor | None, kept: Tensor | None, num_gallery: int) -> Tensor | None:
    """Return the kept position of each query's own item; -1 if there is none or it was dropped."""
    if self_index is None or kept is None:
        return self_index
    column_of = torch.full((num_gallery + 1,), -1, dtype=torch.int64, device=kept.device)
    column_of[kept] = torch.arange(len(kept), device=kept.device)
    return column_of[self_index]  # -1 reads the last entry, which stays -1
