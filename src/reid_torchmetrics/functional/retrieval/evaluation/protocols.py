"""The protocols of re-identification by name; a row has the fields in which it differs from Market-1501."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional.retrieval.relevance import needed_by_options

from .protocol import PROTOCOL_FIELDS, GalleryDraw, Protocol


def _like(other: Protocol, name: str, source: str, **changes: Any) -> Protocol:
    """Return a protocol that differs from another one in some fields."""
    return replace(other, name=name, source=source, **changes)


# Persons and vehicles.
_TO_RANK_20 = ("map", "rank_1", "rank_5", "rank_10", "rank_20")
_CUHK03 = Protocol(
    "cuhk03_torchreid",
    "Li et al., CVPR 2014, as torchreid's eval_cuhk03 reads it: single gallery shot among all items but those of"
    " the query's identity and camera; average precision over the whole gallery",
    gallery_draw=GalleryDraw(),
    gallery_draw_for_map=False,
    reports=_TO_RANK_20,
)
_REID = [
    Protocol(
        "market1501",
        "Zheng et al., ICCV 2015, as torchreid, fast-reid, TransReID and AGW compute it: rectangle, no query counts"
        " that has no positive",
    ),
    Protocol(
        "market1501_official",
        "Zheng et al., ICCV 2015, the official script: trapezoid, queries without a positive count 0; layumi",
        rule="trapezoid",
        empty_target_action="neg",
        reports=_TO_RANK_20,
    ),
    Protocol("dukemtmc", "Zheng et al., ICCV 2017 and Ristani et al., ECCVW 2016; as Market-1501"),
    Protocol("msmt17", "Wei et al., CVPR 2018; as Market-1501"),
    Protocol("cuhk03_np", "Zhong et al., CVPR 2017, 767/700 split; as Market-1501"),
    _like(
        _CUHK03,
        "cuhk03_openreid",
        "Li et al., CVPR 2014, as open-reid reads it: separate cameras, single gallery shot; average precision"
        " over the whole gallery, without the items of the query's identity and camera",
        cmc_same_camera="all",
    ),
    _CUHK03,
    Protocol(
        "vehicleid",
        "Liu et al., CVPR 2016: one random image of every identity is the gallery, the others are queries; all images"
        " are given as queries and gallery alike (leave-one-out)",
        same_camera="keep",
        gallery_draw=GalleryDraw(),
        leave_one_out=True,
        queries_in_draw=True,
        reports=("map", "rank_1", "rank_5"),
    ),
    Protocol("veri776", "Liu et al., ECCV 2016, image to image as fast-reid and TransReID; as Market-1501"),
    Protocol(
        "mars",
        "Zheng et al., ECCV 2016, as torchreid and AP3D compute it, which is not what MARS computes: one embedding per"
        " tracklet; as Market-1501. The authors' own evaluation is `mars_official`",
    ),
    Protocol(
        "aicity",
        "AI City Challenge 2020, track 2: the first 100, divided by all positives, no camera rule",
        same_camera="keep",
        junk_identities=(),
        k=100,
        reports=("map", "rank_1", "rank_5", "rank_10"),
    ),
    Protocol(
        "casia_b",
        "Yu et al., ICPR 2006, as OpenGait computes it: views are cameras; `by_camera_pair` and its"
        " `mean_without_diagonal`",
        junk_identities=(),
        reports=("rank_1", "map"),
    ),
]
_OFFICIAL = _REID[1]
_REID += [
    _like(_OFFICIAL, "mars_official", "Zheng et al., ECCV 2016, evaluation_mars.m: one embedding per tracklet"),
    _like(_OFFICIAL, "veri776_official", "Liu et al., ECCV 2016, baseline_evaluation_FACT_776.m: image to image"),
    _like(
        _OFFICIAL,
        "veri776_image_to_track",
        "Liu et al., ECCV 2016: a track is an identity in a camera, ranked by its best image",
        needs_groups=True,
    ),
]

PROTOCOLS: Registry[Protocol] = Registry("PROTOCOLS", {protocol.name: protocol for protocol in _REID})
"""the protocols by name; tasks add those of further fields"""


DEFAULT_PROTOCOL: _names.ProtocolName = str.join("", ("market", "1501"))  # type: ignore[assignment]
"""the protocol without an argument: an object of its own, so that `is` tells it from a typed name

Python keeps one object for all equal literals of a program, so that this one is joined when it runs.
"""


def find_protocol(protocol: _names.ProtocolName | Protocol) -> Protocol:
    """Return the protocol with a name; a `Protocol` is returned unchanged.

    Raises:
        ValueError: an unknown name.
    """
    if isinstance(protocol, Protocol):
        return protocol
    _checks.one_of("protocol", protocol, PROTOCOLS)
    return PROTOCOLS[protocol]


class TakenProtocol(NamedTuple):
    """A protocol with the options of a caller, and what they leave to do."""

    protocol: Protocol
    other_options: dict[str, Any]
    """the options that are no fields of a protocol"""
    needed: dict[str, str]
    """the labels that changed fields need, with the reasons; none where relevance is by lists"""


def take_protocol(
    protocol: _names.ProtocolName | Protocol,
    options: Mapping[str, Any],
    *,
    lists: bool,
    lists_argument: str = "ground_truth",
) -> TakenProtocol:
    """Return a protocol with the options that are its fields.

    Args:
        protocol: a name or a `Protocol`.
        options: fields of the protocol, and others.
        lists: whether relevance is by lists, and not by labels.
        lists_argument: the caller's argument for lists, for messages.

    Raises:
        ValueError: an unknown name, or an error of `Protocol.check_relevance` or `Protocol.with_options`.
    """
    fields = {name: value for name, value in options.items() if name in PROTOCOL_FIELDS}
    other_options = {name: value for name, value in options.items() if name not in PROTOCOL_FIELDS}
    named_protocol = find_protocol(protocol)
    changed_protocol = named_protocol.with_options(fields)  # a field of the wrong type is a TypeError in any case
    named_protocol.check_relevance(fields, lists=lists, lists_argument=lists_argument)
    needed = {} if lists else needed_by_options(named_protocol.changes(fields))
    return TakenProtocol(changed_protocol, other_options, needed)
