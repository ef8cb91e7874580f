"""Relevance from labels: from identities, or from positions within a radius; with the rules of cameras and clothes."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any, get_args

import torch
from jaxtyping import Bool, Float, Int, Integer, Real, Shaped
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics._signatures import with_typed_options
from reid_torchmetrics.functional import segments

from .extra_labels import AGREEMENT_RULES, EXTRA, as_mapping, check_agreement, number_rows
from .label_names import MISSING, in_one_order, number_names, rules_by_number
from .labels import (
    DECIDING,
    LABEL_RULES,
    LABELS,
    SIDES,
    LabelValues,
    SideLabels,
    check_needed,
    length_of,
    num_labels_of,
    pack_columns,
    select_samples,
    why_needed,
    with_default_rules,
)
from .relevance import GivenJunkPairs, LabelRule, Relevance, junk_pairs_of
from .several_labels import SharedLabels, check_alike

SAME_CAMERA_RULES = get_args(_names.CameraRule)
"""Drop the gallery items with the query's identity and camera (Market-1501), every gallery item of the query's camera
(open-reid's CUHK03), every gallery item of another camera, or nothing."""
LABEL_OPTIONS = (
    "same_camera",
    "camera_map",
    "search_cameras",
    "junk_identities",
    "missing",
    *LABEL_RULES,
    "radius",
    *AGREEMENT_RULES,
)
"""the options of `find_relevance` that only labels can follow, and lists cannot"""
_PAIRS_AT_A_TIME = 1 << 20  # of a query and an item of its band
_ROUNDING = 1e-14  # of a coordinate; some units in the last place of float64
_FEW_ITEMS = 1 << 10  # up to here sorting all costs less than looking for those that are wanted
_MAX_DIFFERING = 4  # labels that must differ: more have more sets of them than counting pair by pair costs
_FEW_LABELS = 8  # up to here a pass over the samples for each label costs less than looking labels up


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
    missing: _names.MissingLabels = "error",
    clothes: _names.ClothesRule = "keep",
    radius: float | None = None,
    must_agree: Collection[str] = (),
    must_differ: Collection[str] = (),
    junk_pairs: GivenJunkPairs | None = None,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    **labels: Unpack[SideLabels],
) -> Relevance:
    """Prepare labels for ranking: find the positives, negatives and junk of every query.

    A positive has the query's identity; identity 0 is an ordinary identity (a distractor). Where samples have several
    labels, identities are a matrix [N, labels] of bools or of 0 and 1, and a positive shares at least one of them; a
    sample without a label is a query without positives, and a negative in the gallery. Labels are integers, or
    names on both sides, which become the numbers of `number_identities`: "-1" is -1. Rules list names then. With a
    `radius` a positive is an item within that distance of the query's position: |p - q| <= radius in float64, by
    differences and not by the expanded square, which is wrong for coordinates of maps.

    Args:
        query_identities: identities of the queries, or several labels as a matrix; with a `radius` they decide nothing
            but what is junk.
        gallery_identities: identities of the gallery.
        query_cameras: cameras of the queries; None together with `gallery_cameras` means that no camera rule applies.
        gallery_cameras: cameras of the gallery.
        same_camera: "same_identity" drops the gallery items with the query's identity and camera (Market-1501),
            "all" drops every item of the query's camera (open-reid's CUHK03), "only" every item of another camera,
            "keep" drops nothing.
        camera_map: cameras that the camera rule treats as another one, on both sides: {3: 2} says that cameras 2 and 3
            show the same place (SYSU-MM01).
        search_cameras: cameras to search; gallery items of other cameras are dropped for every query. None keeps all.
        junk_identities: gallery items of these identities are dropped for every query.
        missing: what becomes of samples whose identity is missing (None, NaN or ""): "junk" drops them from the
            gallery, and leaves queries without a positive; "error" refuses them.
        clothes: "drop_same" drops the gallery items with the query's identity and clothes (changed clothes),
            "drop_other" those with its identity and other clothes (same clothes), "keep" drops nothing.
        radius: the largest distance of a positive, in the unit of the positions.
        must_agree: labels that a gallery item must share with the query, such as ("side",); an item that differs in one
            of them is dropped, whatever its identity. They are labels of one's own, cameras or clothes; cameras are
            compared under `camera_map`, and ("cameras",) is `same_camera="only"`.
        must_differ: labels in which a gallery item must differ from the query, such as ("batch",); an item that agrees
            in one of them is dropped, whatever its identity. ("cameras",) is `same_camera="all"`.
        junk_pairs: a bool mask of all pairs [queries, gallery], True for those that are dropped; or a function of
            positions of queries [q] and of gallery items [g] that returns a bool mask [q, g] of
            the pairs to drop. It is called for blocks of pairs, more than once for a pair.
        self_index: for every query its own position in the gallery, or -1: leave-one-out drops it by position.
        labels: for both sides `query_sequences` and `gallery_sequences`, int, the sequence or track, whose gallery
            items of any identity are dropped for its queries (open-metric-learning); `..._clothes`, int;
            `..._positions`, coordinates [N] or [N, 1 to 3]; `..._labels`, a mapping of the names in `must_agree` and
            `must_differ` to labels, integers or names: {"side": [...]}. A missing value among them (None, NaN or "") is
            refused as for cameras, and -1 is a label like all others.

    Raises:
        TypeError: a label of another dtype, `junk_identities` does not hold ints or names.
        ValueError: lengths, devices or options that do not fit, labels on one side only or not whole numbers, a
            rule with numbers of labels that are names, or the reverse, or a label is missing that a rule needs.
    """
    named: dict[str, Any] = {"query_identities": query_identities, "gallery_identities": gallery_identities}
    named |= {"query_cameras": query_cameras, "gallery_cameras": gallery_cameras, **labels}
    lists: dict[str, Any] = {"junk_identities": junk_identities, "camera_map": camera_map}
    lists |= {"search_cameras": search_cameras, "missing": missing}
    lists |= {"must_agree": must_agree, "must_differ": must_differ}
    _check_lists(lists)
    label_rules = {"clothes": clothes}
    check_agreement(lists | {"same_camera": same_camera} | label_rules)
    named, tables = number_names(named, lists)
    by_number = rules_by_number(lists, tables)
    junk, searched = by_number["junk_identities"], by_number["search_cameras"]
    self_index, *tensors = _arrays.as_tensors(self_index, *named.values())
    named = dict(zip(named, tensors, strict=True))
    options = with_default_rules({"radius": radius} | label_rules | lists)
    check_needed(why_needed(options), named, "query_", "gallery_")
    query, gallery = _check_labels(named, self_index)
    self_index = None if self_index is None else self_index.long()
    _checks.one_of("same_camera", same_camera, SAME_CAMERA_RULES)
    for name, rule in label_rules.items():
        _checks.one_of(name, rule, LABEL_RULES[name])
    if num_labels_of(query):
        _check_several(radius, junk)
    num_gallery, is_junk = length_of(gallery), _with_one_of(junk, query, "identities")
    kept, may_be_unknown = _kept(query, gallery, junk, searched)
    gallery = gallery if kept is None else select_samples(gallery, kept)
    own_column = _own_column(self_index, kept, num_gallery)
    # The positives and the junk of a query's identity are one run of items, shared by all queries of the identity.
    shared = None
    if radius is not None:
        run_start, run_length, order = find_near(query["positions"], gallery["positions"], radius)
    elif num_labels_of(query):
        shared = SharedLabels(query["identities"], gallery["identities"], own_column)
        run_length = shared.lengths()
        run_start, order = torch.zeros_like(run_length), run_length[:0]
    else:
        run_start, run_length, order = _runs(query["identities"], gallery["identities"])
    # Sequences are dropped like the cameras of "all": for any identity.
    rules = {"cameras": same_camera, "sequences": "all"} | label_rules
    made = _rules(query, gallery, rules, by_number["camera_map"])
    made += _agreement_rules(query, gallery, lists, by_number["camera_map"])
    return Relevance(
        num_gallery=num_gallery,
        kept=kept,
        num_kept=length_of(gallery),
        order=order,
        run_start=run_start,
        run_length=run_length,
        is_junk=is_junk if radius is None else torch.zeros_like(is_junk),  # another identity may be near
        self_index=self_index,
        own_column=own_column,
        rules=made,
        num_dropped=_count_dropped(made, length_of(gallery)),
        junk_pairs=junk_pairs_of(junk_pairs, length_of(query), num_gallery, is_junk.device),
        query_identities=None if num_labels_of(query) else query.get("identities"),
        gallery_identities=None if num_labels_of(query) else gallery.get("identities"),
        query_cameras=query.get("cameras"),
        gallery_cameras=gallery.get("cameras"),
        may_be_unknown=may_be_unknown,
        shared=shared,
    )


def _check_lists(lists: Mapping[str, Any]) -> None:
    """Raise unless options that list labels hold numbers or names."""
    _checks.one_of("missing", lists["missing"], _names.MissingLabels)
    _checks.integers_or_names("junk_identities", lists["junk_identities"])
    check_camera_map(lists["camera_map"])
    if lists["search_cameras"] is not None:
        _checks.integers_or_names("search_cameras", lists["search_cameras"])


def _check_several(radius: float | None, junk_identities: Collection[int]) -> None:
    """Raise if options need one identity for each sample, where samples have several labels."""
    if radius is not None:
        raise ValueError(f"`radius` must be None where `identities` are a matrix of labels; got {radius!r}.")
    if set(junk_identities) - {-1, MISSING}:
        raise ValueError(
            "`junk_identities` must list nothing but -1 where `identities` are a matrix of labels, as samples have no"
            f" identity of their own; got {tuple(junk_identities)}."
        )


def in_one_spelling(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Rules of `find_relevance` in the one spelling that all equal ones have: with defaults, in order, each label once.

    They have been checked.
    """
    options = inspect.signature(find_relevance).parameters
    rules = {name: rules.get(name, options[name].default) for name in LABEL_OPTIONS}
    searched, mapped, radius = rules["search_cameras"], rules["camera_map"] or {}, rules["radius"]
    return rules | {
        "camera_map": {camera: mapped[camera] for camera in in_one_order(mapped) if camera != mapped[camera]} or None,
        "search_cameras": None if searched is None else in_one_order(searched),
        "junk_identities": in_one_order(rules["junk_identities"]),
        "radius": None if radius is None else float(radius),
        **{rule: in_one_order(rules[rule]) for rule in AGREEMENT_RULES},
    }


def _kept(
    query: LabelValues, gallery: LabelValues, junk_identities: Collection[int], search_cameras: Collection[int] | None
) -> tuple[Int[Tensor, " kept"] | None, bool]:
    """Where gallery items of no junk identity are, of cameras that are searched; None for all of them.

    And whether some query has an identity below -1: both are told at once, as to look at values waits for a device.
    """
    is_dropped = _with_one_of(junk_identities, gallery, "identities")
    if search_cameras is not None:
        if "cameras" not in gallery:
            raise ValueError("`search_cameras` must come with cameras; got no `gallery_cameras`.")
        is_dropped |= ~_with_one_of(search_cameras, gallery, "cameras")
    identities = query.get("identities", is_dropped)
    drops, is_below = torch.stack([is_dropped.any(), (identities < -1).any()]).tolist()
    return (~is_dropped).nonzero()[:, 0] if drops else None, is_below


def _check_labels(given: Mapping[str, Any], self_index: Tensor | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The labels of queries and of gallery items, in the dtypes of the table; raise unless they fit."""
    device = next((value.device for value in given.values() if isinstance(value, Tensor)), None)
    query: dict[str, Tensor] = {}
    gallery: dict[str, Tensor] = {}
    for name, (side, labels) in itertools.product(DECIDING, zip(SIDES, (query, gallery), strict=True)):
        if (value := given.get(f"{side}_{name}")) is not None:
            labels[name] = LABELS[name].check(f"{side}_{name}", value, length_of(labels) if labels else None, device)
    for name in query.keys() ^ gallery.keys():
        has, lacks = SIDES if name in query else reversed(SIDES)
        raise ValueError(
            f"`query_{name}` and `gallery_{name}` must be given together; got `{has}_{name}` without `{lacks}_{name}`."
        )
    if "identities" in query:
        check_alike("gallery_identities", gallery["identities"], "`query_identities`", query["identities"])
    if self_index is not None:
        _checks.integer_labels("self_index", self_index, length_of(query), device)
        _checks.in_range("self_index", self_index, -1, length_of(gallery))
        for name, of_queries in query.items():
            _check_self(LABELS[name].singular, of_queries, gallery[name], self_index.long())
    return query, gallery


def _check_self(label: str, query_labels: Tensor, gallery_labels: Tensor, self_index: Tensor) -> None:
    """Raise if the item at `self_index` has another label than its query."""
    inside = (self_index >= 0).nonzero()[:, 0]
    items = self_index[inside]
    wrong = (
        (pack_columns({label: query_labels}, inside) != pack_columns({label: gallery_labels}, items))
        .any(1)
        .nonzero()[:, 0]
    )
    if len(wrong):
        raise ValueError(
            "`self_index` must point at gallery items with the labels of the query; got item"
            f" {int(items[wrong[0]])} for query {int(inside[wrong[0]])}, of another {label}."
        )


def check_camera_map(value: object) -> None:
    """Raise unless `value` is None or a mapping of ints or names to others that are not mapped themselves."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"`camera_map` must be a mapping of ints or names, or None; got {type(value).__name__}.")
    _checks.integers_or_names("camera_map", [*value.keys(), *value.values()])
    both = list(in_one_order(set(value) & {other for label, other in value.items() if other != label}))
    if both:
        raise ValueError(f"`camera_map` must map to cameras that are not mapped themselves; got {both} on both sides.")


def _rules(
    query: LabelValues, gallery: LabelValues, rules: Mapping[str, str], camera_map: Mapping[int, int] | None
) -> tuple[LabelRule, ...]:
    """The `rules` of `SAME_CAMERA_RULES` and `LABEL_RULES` for labels that are given."""
    made = []
    for name in (name for name, rule in rules.items() if name in query and rule != "keep"):
        mapping = camera_map if name == "cameras" else None
        of_query, of_gallery = (_mapped(side[name], mapping or {}) for side in (query, gallery))
        if rules[name] == "all":
            rule = _rule_of_equal(of_query, of_gallery)
        elif rules[name] == "only":
            rule = _rule_of_different(of_query, of_gallery)
        else:
            rule = LabelRule(of_query, of_gallery, None, drops_different=rules[name] == "drop_other")
        made.append(rule)
    return tuple(made)


def _agreement_rules(
    query: LabelValues, gallery: LabelValues, options: Mapping[str, Any], camera_map: Mapping[int, int] | None
) -> tuple[LabelRule, ...]:
    """The rules of `must_agree` and `must_differ`."""
    query_labels = _by_name(query, options, camera_map)
    gallery_labels = _by_name(gallery, options, camera_map)
    made = []
    must_agree = sorted(set(options["must_agree"]))
    if must_agree:
        # An item that differs in some label differs in their combination.
        numbers = number_rows(
            [query_labels[name] for name in must_agree], [gallery_labels[name] for name in must_agree]
        )
        made.append(_rule_of_different(*numbers))
    must_differ = sorted(set(options["must_differ"]))
    made += [_rule_of_equal(query_labels[name], gallery_labels[name]) for name in must_differ]
    return tuple(made)


def _by_name(
    labels: LabelValues, options: Mapping[str, Any], camera_map: Mapping[int, int] | None
) -> dict[str, Tensor]:
    """The labels of one side by name, with the extra ones, and with cameras as `camera_map` takes them."""
    by_name = dict(labels)
    if "cameras" in by_name:
        by_name["cameras"] = _mapped(by_name["cameras"], camera_map or {})
    if EXTRA in by_name:
        by_name.update(as_mapping(by_name[EXTRA], options))
    return by_name


def _count_dropped(rules: Sequence[LabelRule], num_kept: int) -> Int[Tensor, " queries"] | None:
    """Numbers of kept items, listed or not, that several rules drop together; None where there are other ways.

    An item is left if it agrees in every label that must agree, and in none that must differ. By inclusion and
    exclusion the number is a sum over all sets of the latter labels: of items that agree in the set and in all labels
    that must agree.
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
            numbers = number_rows([rule.query for rule in compared], [rule.gallery for rule in compared])
            num_left += sign * _runs(*numbers)[1]
    return num_kept - num_left


def _rule_of_equal(query: Tensor, gallery: Tensor) -> LabelRule:
    """The rule that drops every item with the query's label."""
    return LabelRule(query, gallery, _runs(query, gallery)[1])


def _rule_of_different(query: Tensor, gallery: Tensor) -> LabelRule:
    """The rule that drops every item with another label than the query's."""
    num_dropped = len(gallery) - _runs(query, gallery)[1]
    return LabelRule(query, gallery, num_dropped, drops_different=True)


def _mapped(labels: Tensor, mapping: Mapping[int, int]) -> Tensor:
    mapped = labels.clone() if mapping else labels
    for label, other in mapping.items():
        mapped[labels == label] = other
    return mapped


def _runs(query_labels: Tensor, gallery_labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The start of every query's label among the sorted items with such labels, its number of items, and the items."""
    query_labels = query_labels.contiguous()  # searchsorted warns otherwise
    if len(gallery_labels) <= _FEW_ITEMS:
        ordered, order = gallery_labels.sort(stable=True)
    else:  # few items have the label of a query: only they are sorted
        items = _are_among(query_labels.unique(), gallery_labels).nonzero()[:, 0]
        ordered, order = gallery_labels[items].sort(stable=True)
        order = items[order]
    start = torch.searchsorted(ordered, query_labels)
    return start, torch.searchsorted(ordered, query_labels, right=True) - start, order


def find_near(
    query_positions: Float[Tensor, "queries axes"],
    gallery_positions: Float[Tensor, "gallery gallery_axes"],
    radius: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Items within a radius: the start of every query's run of them, its length, and the items, ascending in a run.

    Sorted by one axis, only items of a band around the query are looked at, some millions of pairs at a time.
    """
    _checks.nonnegative("radius", radius)
    if query_positions.shape[1] != gallery_positions.shape[1]:
        raise ValueError(
            "`query_positions` and `gallery_positions` must have as many coordinates; got"
            f" {query_positions.shape[1]} and {gallery_positions.shape[1]}."
        )
    # The axis along which items are spread most has the fewest in a band; rounding must not narrow the band.
    spread = (gallery_positions - gallery_positions.mean(0)).abs().sum(0)
    axis = int(spread.argmax())
    along, order = gallery_positions[:, axis].sort()
    center = query_positions[:, axis].contiguous()
    reach = radius + _ROUNDING * (center.abs() + radius)
    first = torch.searchsorted(along, center - reach)
    num_band = torch.searchsorted(along, center + reach, right=True) - first
    near = [(first[:0], first[:0])]
    for part in segments.ranges_within(num_band, _PAIRS_AT_A_TIME):
        query, place = segments.runs(first[part], num_band[part])
        query, item = query + part.start, order[place]
        is_near = (query_positions[query] - gallery_positions[item]).square_().sum(1).sqrt_() <= radius
        near.append((query[is_near], item[is_near]))
    query, item = map(torch.cat, zip(*near, strict=True))
    ascending = (query * len(gallery_positions) + item).argsort()
    run_length = torch.bincount(query, minlength=len(query_positions))
    return segments.starts(run_length), run_length, item[ascending]


def _with_one_of(chosen: Collection[int], labels: LabelValues, name: str) -> Bool[Tensor, " samples"]:
    """Mark the samples with one of some labels; none where none has such a label, or each has several."""
    values, *_ = labels.values()
    if name not in labels or labels[name].ndim > 1:
        return torch.zeros(len(values), dtype=torch.bool, device=values.device)
    return _are_among(sorted(chosen), labels[name])


def _are_among(
    chosen: Sequence[int] | Int[Tensor, " chosen"], labels: Int[Tensor, " samples"]
) -> Bool[Tensor, " samples"]:
    """Mark the samples with one of some ascending labels."""
    if 0 < len(chosen) <= _FEW_LABELS:
        return reduce(operator.ior, (labels == label for label in chosen))
    chosen = torch.as_tensor(chosen, dtype=torch.int64, device=labels.device)
    place = torch.searchsorted(chosen, labels.contiguous()).clamp_(max=max(0, len(chosen) - 1))  # else it warns
    return chosen[place] == labels if len(chosen) else torch.zeros_like(labels, dtype=torch.bool)


def _own_column(self_index: Tensor | None, kept: Tensor | None, num_gallery: int) -> Tensor | None:
    """Translate gallery positions into kept positions; -1 where the query's own item was dropped."""
    if self_index is None or kept is None:
        return self_index
    column_of = torch.full((num_gallery + 1,), -1, dtype=torch.int64, device=kept.device)
    column_of[kept] = torch.arange(len(kept), device=kept.device)
    return column_of[self_index]  # -1 reads the last entry, which stays -1
