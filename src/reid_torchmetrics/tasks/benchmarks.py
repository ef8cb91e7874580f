"""Protocols of further benchmarks: clothes, places, infrared, texts, landmarks, metric learning, lists and codes."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

from reid_torchmetrics.functional.retrieval.evaluation import PROTOCOLS, GalleryDraw, Protocol

_TO_RANK_20 = ("map", "rank_1", "rank_5", "rank_10", "rank_20")


def _like(other: Protocol, name: str, source: str, **changes: Any) -> Protocol:
    """Return a protocol that differs from another one in some fields."""
    return replace(other, name=name, source=source, **changes)


# Clothes that change. The split of a benchmark decides whose; from LTCC on, each image has a number for its clothes,
# which need not be unique among people.
_PRCC = Protocol(
    "prcc",
    "Yang et al., TPAMI 2021, multi-shot as Simple-CCReID: camera A is the gallery, B the same clothes, C others",
    reports=_TO_RANK_20,
)
_LTCC = _like(
    _PRCC, "ltcc", "Qian et al., ACCV 2020, as Simple-CCReID computes it: whatever people wear", junk_identities=()
)
_CLOTHES = [
    _PRCC,
    _like(
        _PRCC,
        "prcc_single_shot",
        "Yang et al., TPAMI 2021: one random image of every identity of camera A is the gallery",
        gallery_draw=GalleryDraw(),
    ),
    _like(_PRCC, "deepchange", "Xu and Zhu, ICCV 2023, as Simple-CCReID: tracklets are given as cameras"),
    _like(
        _PRCC,
        "vc_clothes",
        "Wan et al., CVPRW 2020, as Simple-CCReID: cameras 2 and 3 the same clothes, 3 and 4 others",
    ),
    Protocol("celeb_reid", "Huang et al., TCSVT 2020: no cameras", same_camera="keep", reports=_TO_RANK_20),
    _LTCC,
    _like(_LTCC, "ltcc_cc", "Qian et al., ACCV 2020: changed clothes", clothes="drop_same"),
    _like(_LTCC, "ltcc_sc", "Qian et al., ACCV 2020: the same clothes", clothes="drop_other"),
    _like(_LTCC, "ccvid_cc", "Gu et al., CVPR 2022: changed clothes, one embedding per track", clothes="drop_same"),
]


# Visible and infrared.
def _sysu(search: str, cameras: tuple[int, ...], shots: int) -> Protocol:
    """Return a protocol of SYSU-MM01."""
    kind = "single" if shots == 1 else "multi"
    return Protocol(
        f"sysu_mm01_{search}_{kind}",
        f"Wu et al., ICCV 2017: {search} search, {kind} shot, camera 3 does not search camera 2; the CMC counts"
        " identities (Ye et al., Cross-Modal-Re-ID-baseline)",
        same_camera="all",
        camera_map=((3, 2),),
        search_cameras=cameras,
        gallery_draw=GalleryDraw(shots=shots, per="identity_and_camera"),
        reports=("map", "minp", "rank_1", "rank_10", "rank_20"),
    )


# Cameras 3 and 6 are infrared and query; the others are the gallery, 1 and 2 indoors.
_ALL_CAMERAS = (1, 2, 4, 5)
_INDOOR_CAMERAS = (1, 2)
_INFRARED = [
    _sysu("all", _ALL_CAMERAS, shots=1),
    _sysu("all", _ALL_CAMERAS, shots=10),
    _sysu("indoor", _INDOOR_CAMERAS, shots=1),
    _sysu("indoor", _INDOOR_CAMERAS, shots=10),
    Protocol("regdb", "Nguyen et al., Sensors 2017, as Ye et al. (AGW): no camera rule", same_camera="keep"),
    Protocol(
        "llcm",
        "Zhang and Wang, CVPR 2023 (DEEN): one random image of every identity and camera is the gallery; the CMC counts"
        " identities; both directions",
        gallery_draw=GalleryDraw(per="identity_and_camera"),
        reports=("map", "minp", "rank_1", "rank_10", "rank_20"),
    ),
]

# Text, images and video: one call for each direction.
_IRRA = "as IRRA computes it: a text counts, found or not"
_PAIRED = Protocol(
    "cuhk_pedes", f"Li et al., CVPR 2017, {_IRRA}", same_camera="keep", junk_identities=(), empty_target_action="neg"
)
_CAPTIONS = replace(_PAIRED, name="flickr30k", reports=("rank_1", "rank_5", "rank_10"))
_TEXTS = [
    _PAIRED,
    _like(_PAIRED, "icfg_pedes", f"Ding et al., 2021, {_IRRA}"),
    _like(_PAIRED, "rstpreid", f"Zhu et al., ACM MM 2021, {_IRRA}"),
    replace(_CAPTIONS, source="Young et al., TACL 2014, Karpathy's split: recall at k is the hit rate"),
    _like(_CAPTIONS, "coco_captions", "Chen et al., 2015, Karpathy's split of 5,000 images; as Flickr30k"),
    _like(
        _CAPTIONS,
        "msrvtt",
        "Xu et al., CVPR 2016, 1k-A split, as CLIP4Clip computes it",
        empty_target_action="skip",
        reports=("rank_1", "rank_5", "rank_10", "median_rank", "mean_rank"),
    ),
]

# Sketches, codes, and lists of competitions.
_LISTED = replace(_PAIRED, reports=("map",))
_OTHERS = [
    _like(
        _LISTED,
        "sketchy",
        "Sangkloy et al., SIGGRAPH 2016, zero-shot as Dutta and Akata, CVPR 2019: of 200, divided by hits",
        k=200,
        normalizer="hits",
        reports=("map", "precision_200"),
    ),
    _like(
        _LISTED,
        "hashing",
        "Cao et al., ICCV 2017 (HashNet), as DeepHash-pytorch: divided by hits; NUS-WIDE and COCO at 5,000,"
        " ImageNet at k=1000, CIFAR-10 at k=None; codes tie, and every order of equal codes counts alike",
        k=5000,
        normalizer="hits",
        similarity="dot",
        reads_codes=True,
        ties="expected",
    ),
    _like(
        _LISTED,
        "guie",
        "Google Universal Image Embedding, 2022: precision of the first min(n, 5)",
        precision_divisor="calibrated",
        empty_target_action="skip",
        reports=("precision_5",),
    ),
    _like(
        _LISTED,
        "happywhale",
        "Happywhale, 2022, and Humpback Whale, 2018: lists of five individuals, one of them right",
        k=5,
        normalizer="attainable",
    ),
]

# Landmarks: relevance comes as lists, and no camera rule exists.
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
    """Return the protocols of the revisited Oxford and Paris for one difficulty."""
    oxford = replace(
        _OXFORD,
        name=f"roxford5k_{name}",
        source=f"Radenovic et al., CVPR 2018, {name}: trapezoid; precision at k over the ranks up to the last positive",
        precision_divisor="last_positive",
        positive_lists=positive_lists,
        junk_lists=junk_lists,
        reports=("map", "precision_1", "precision_5", "precision_10"),
    )
    return [oxford, replace(oxford, name=f"rparis6k_{name}")]


_LANDMARKS = [
    _OXFORD,
    _like(_OXFORD, "paris6k", "Philbin et al., CVPR 2008; as Oxford"),
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


# Metric learning: every label is an identity, so none is junk.
def _metric_learning(name: str, source: str, cutoffs: tuple[int, ...], *, leave_one_out: bool = True) -> Protocol:
    """Return a protocol that reports hit rates at some cutoffs."""
    reports = ("map_at_r", "r_precision", *(f"hit_rate_{k}" for k in cutoffs))
    return _like(_PAIRED, name, source, leave_one_out=leave_one_out, empty_target_action="skip", reports=reports)


_LEAVE_ONE_OUT = "leave-one-out; recall at k of metric learning is the hit rate (Musgrave et al., ECCV 2020)"
_METRIC_LEARNING = [
    _metric_learning("cub200", f"Wah et al., 2011: {_LEAVE_ONE_OUT}", (1, 2, 4, 8)),
    _metric_learning("cars196", f"Krause et al., 2013: {_LEAVE_ONE_OUT}", (1, 2, 4, 8)),
    _metric_learning("sop", f"Oh Song et al., CVPR 2016: {_LEAVE_ONE_OUT}", (1, 10, 100, 1000)),
    _metric_learning(
        "inshop", "Liu et al., CVPR 2016 (DeepFashion): query and gallery split", (1, 10, 20, 30), leave_one_out=False
    ),
]


# Ranked lists, and lists of the boxes of a detector: positives that are not retrieved count.
def _person_search(name: str, source: str) -> Protocol:
    return Protocol(
        name,
        f"{source}, as SeqNet: the most similar box of an image that overlaps the person is right; average precision"
        " times the share of images with such a box",
        same_camera="keep",
        empty_target_action="neg",
        reports=("map", "rank_1", "rank_5", "rank_10"),
    )


_LISTS = [
    _like(
        _PAIRED,
        "trec",
        "trec_eval 9, as pytrec_eval and ranx: average precision divided by all positives, retrieved or not; queries"
        " without a positive count 0",
        ties="stable",
        reports=("map", "mrr", "precision_10", "recall_10", "ndcg_10"),
    ),
    _person_search("cuhk_sysu", "Xiao et al., CVPR 2017"),
    _person_search("prw", "Zheng et al., CVPR 2017"),
]

# Places: positives are within a radius of the query's position.
_TO_20 = ("hit_rate_1", "hit_rate_5", "hit_rate_10", "hit_rate_20")
_PITTSBURGH = _like(
    _PAIRED,
    "pitts30k",
    "Arandjelovic et al., CVPR 2016, as VPR-methods-evaluation and gsv-cities compute it:"
    " within 25 m, all queries count",
    radius=25.0,
    reports=_TO_20,
)
_PLACES = [
    _PITTSBURGH,
    _like(
        _PITTSBURGH,
        "tokyo247",
        "Torii et al., CVPR 2015, as OpenIBL: as Pitts30k, of places, groups of images, each by its best one",
        needs_groups=True,
    ),
    _like(
        _PITTSBURGH,
        "msls",
        "Warburg et al., CVPR 2020, mapillary_sls: within 25 m, queries without a positive are left out",
        k=20,
        normalizer="attainable",
        empty_target_action="skip",
        reports=(*_TO_20, "map"),
    ),
    _like(
        _PITTSBURGH,
        "nordland",
        "Sunderhauf et al., ICRAW 2013, as Patch-NetVLAD's lists: positions are frame numbers, 7 frames around"
        " the query's; the texts say 10",
        radius=7.0,
    ),
]

_FIELDS = (_CLOTHES, _PLACES, _INFRARED, _TEXTS, _LANDMARKS, _METRIC_LEARNING, _LISTS, _OTHERS)
PROTOCOLS.update({protocol.name: protocol for protocol in chain.from_iterable(_FIELDS)})
