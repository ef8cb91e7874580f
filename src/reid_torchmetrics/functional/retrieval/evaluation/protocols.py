"""The protocols of the benchmarks, by name.

Splits into query and gallery are those that each benchmark ships; a protocol says how they are evaluated.
"""

from __future__ import annotations

from dataclasses import replace

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.draws import GalleryDraw
from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol

_SINGLE_SHOT = GalleryDraw(shots=1, per="identity")

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
        reports=("map", "rank_1", "rank_5", "rank_10", "rank_20"),
    ),
    Protocol("dukemtmc", "Zheng et al., ICCV 2017 and Ristani et al., ECCVW 2016; as Market-1501"),
    Protocol("msmt17", "Wei et al., CVPR 2018; as Market-1501"),
    Protocol("cuhk03_np", "Zhong et al., CVPR 2017, 767/700 split; as Market-1501"),
    Protocol(
        "cuhk03_openreid",
        "Li et al., CVPR 2014, as open-reid reads it: separate cameras, single gallery shot; average precision over"
        " the whole gallery, without the items of the query's identity and camera",
        cmc_same_camera="all",
        draw=_SINGLE_SHOT,
        draws_precision=False,
        reports=("map", "rank_1", "rank_5", "rank_10", "rank_20"),
    ),
    Protocol(
        "cuhk03_torchreid",
        "Li et al., CVPR 2014, as torchreid's eval_cuhk03 reads it: single gallery shot among all items but those of"
        " the query's identity and camera; average precision over the whole gallery",
        draw=_SINGLE_SHOT,
        draws_precision=False,
        reports=("map", "rank_1", "rank_5", "rank_10", "rank_20"),
    ),
    Protocol(
        "vehicleid",
        "Liu et al., CVPR 2016: one random image of every identity is the gallery, the others are queries; all images"
        " are given as queries and gallery alike (leave-one-out)",
        same_camera="keep",
        draw=_SINGLE_SHOT,
        leave_one_out=True,
        queries_in_draw=True,
        reports=("map", "rank_1", "rank_5"),
    ),
    Protocol("veri776", "Liu et al., ECCV 2016, image to image as fast-reid and TransReID; as Market-1501"),
    Protocol("regdb", "Nguyen et al., Sensors 2017, as Ye et al. (AGW): no camera rule", same_camera="keep"),
    Protocol(
        "mars",
        "Zheng et al., ECCV 2016, as torchreid and AP3D compute it: one embedding per tracklet; as Market-1501. The"
        " authors' own evaluation is `market1501_official`",
    ),
]


def _sysu(search: str, cameras: tuple[int, ...], shots: int) -> Protocol:
    kind = "single" if shots == 1 else "multi"
    return Protocol(
        f"sysu_mm01_{search}_{kind}",
        f"Wu et al., ICCV 2017: {search} search, {kind} shot, camera 3 does not search camera 2; the CMC counts"
        " identities (Ye et al., Cross-Modal-Re-ID-baseline)",
        same_camera="all",
        camera_map=((3, 2),),
        search_cameras=cameras,
        draw=GalleryDraw(shots=shots, per="identity_and_camera"),
        reports=("map", "minp", "rank_1", "rank_10", "rank_20"),
    )


_SEARCHES = {"all": (1, 2, 4, 5), "indoor": (1, 2)}
_SYSU = [_sysu(search, cameras, shots) for search, cameras in _SEARCHES.items() for shots in (1, 10)]

_OXFORD = Protocol(
    "oxford5k",
    "Philbin et al., CVPR 2007: compute_ap, trapezoid; lists `good`, `ok` and `junk` of each query",
    rule="trapezoid",
    same_camera="keep",
    needs_lists=True,
    positive_lists=("good", "ok"),
    reports=("map",),
)


def _revisited(name: str, positive_lists: tuple[str, ...], junk_lists: tuple[str, ...]) -> list[Protocol]:
    medium = replace(
        _OXFORD,
        source=f"Radenovic et al., CVPR 2018, {name}: trapezoid; precision at k over the ranks up to the last positive",
        precision_divisor="last_positive",
        positive_lists=positive_lists,
        junk_lists=junk_lists,
        reports=("map", "precision_1", "precision_5", "precision_10"),
    )
    return [replace(medium, name=f"{data}_{name}") for data in ("roxford5k", "rparis6k")]


_LANDMARKS = [
    _OXFORD,
    replace(_OXFORD, name="paris6k", source="Philbin et al., CVPR 2008; as Oxford"),
    *_revisited("easy", ("easy",), ("junk", "hard")),
    *_revisited("medium", ("easy", "hard"), ("junk",)),
    *_revisited("hard", ("hard",), ("junk", "easy")),
    Protocol(
        "gldv2",
        "Weyand et al., CVPR 2020, retrieval: the first 100, divided by min(100, positives); `global_average_precision`"
        " is its recognition task",
        same_camera="keep",
        k=100,
        normalizer="attainable",
        reports=("map",),
    ),
]


def _metric_learning(name: str, source: str, cutoffs: tuple[int, ...], *, leave_one_out: bool = True) -> Protocol:
    return Protocol(
        name,
        source,
        same_camera="keep",
        junk_identities=(),
        leave_one_out=leave_one_out,
        reports=("map_at_r", "r_precision", *(f"hit_rate_{k}" for k in cutoffs)),
    )


_LEAVE_ONE_OUT = "leave-one-out; recall at k of metric learning is the hit rate (Musgrave et al., ECCV 2020)"
_METRIC_LEARNING = [
    _metric_learning("cub200", f"Wah et al., 2011: {_LEAVE_ONE_OUT}", (1, 2, 4, 8)),
    _metric_learning("cars196", f"Krause et al., 2013: {_LEAVE_ONE_OUT}", (1, 2, 4, 8)),
    _metric_learning("sop", f"Oh Song et al., CVPR 2016: {_LEAVE_ONE_OUT}", (1, 10, 100, 1000)),
    _metric_learning(
        "inshop",
        "Liu et al., CVPR 2016 (DeepFashion): query and gallery split",
        (1, 10, 20, 30),
        leave_one_out=False,
    ),
]

PROTOCOLS = {protocol.name: protocol for protocol in (*_REID, *_SYSU, *_LANDMARKS, *_METRIC_LEARNING)}
"""the protocols by name"""


def find_protocol(protocol: str | Protocol) -> Protocol:
    """A protocol by its name; a value is returned as it is.

    Raises:
        ValueError: an unknown name.
    """
    if isinstance(protocol, Protocol):
        return protocol
    _checks.one_of("protocol", protocol, PROTOCOLS)
    return PROTOCOLS[protocol]
