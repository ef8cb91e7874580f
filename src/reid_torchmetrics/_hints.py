"""Names of other libraries and of papers, and their counterparts here, for messages about unknown names.

One rule holds for arguments, values, reported numbers, attributes, imports and the command. A name is looked up before
spellings are compared: no comparison of spellings finds that "labels" are identities. A name that is only spelled alike
is not a hint if its digits differ, or "%" or "@R" is in one of both: it is another quantity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

_MOST_LISTED = 10
_ALIKE = 0.6
"""similarity of two words, from which on one comes first in a list"""
_SIMILAR = 0.75
"""similarity of two words, from which on one may be a misspelling of the other"""

_IDENTITIES = ("identities", "query_identities")
_CAMERAS = ("cameras", "query_cameras")
_SAMPLES = ("embeddings", "query")
_CUTOFF = ("top_k", "k", "ranks", "reports", "max_rank")

ARGUMENTS: dict[str, tuple[str, ...]] = {
    # Labels.
    **dict.fromkeys(
        ("labels", "label", "y", "target", "targets", "pid", "pids", "id", "ids", "person_ids", "classes", "identity"),
        (*_IDENTITIES, "class_names"),
    ),
    "identities": _IDENTITIES,
    **dict.fromkeys(
        ("q_pids", "q_ids", "q_labels", "query_labels", "query_ids", "query_pids", "query_id", "query_targets"),
        ("query_identities",),
    ),
    **dict.fromkeys(
        ("g_pids", "g_ids", "g_labels", "gallery_labels", "gallery_ids", "gallery_pids", "gallery_id"),
        ("gallery_identities",),
    ),
    **dict.fromkeys(("camids", "camid", "cams", "cam", "cam_ids", "camera_ids", "views", "camera"), _CAMERAS),
    **dict.fromkeys(("q_camids", "q_cams", "query_cams", "query_camids"), ("query_cameras",)),
    **dict.fromkeys(("g_camids", "g_cams", "gallery_cams", "gallery_camids"), ("gallery_cameras",)),
    **dict.fromkeys(("preds", "pred", "feats", "features", "feat", "x", "embedding"), _SAMPLES),
    **dict.fromkeys(("split", "query", "is_gallery", "num_query", "role", "roles", "probe"), ("is_query",)),
    **dict.fromkeys(("indices", "idx", "sample_id", "sample_ids"), ("index",)),
    **dict.fromkeys(("tracks", "tracklets", "track_ids"), ("groups", "gallery_groups", "sequences")),
    # How scores are made.
    **dict.fromkeys(
        ("metric", "dist_metric", "distance", "distance_metric", "dist", "similarity_metric"), ("similarity", "reports")
    ),
    **dict.fromkeys(("re_ranking", "rerank_k"), ("rerank",)),
    **dict.fromkeys(("batch_size", "chunk_size", "block_size", "memory"), ("max_bytes",)),
    **dict.fromkeys(("tie_break", "tie_policy"), ("ties",)),
    # What is measured.
    **dict.fromkeys(("topk", "top_k", "k", "rank", "cutoff"), ("top_k", "ranks", "k", "reports", "max_rank")),
    "ranks": ("top_k", "reports"),
    "max_rank": ("ranks", "max_rank", "top_k"),
    **dict.fromkeys(("metrics", "measures", "measure", "metric_names"), ("reports",)),
    **dict.fromkeys(("dataset", "benchmark", "data_set", "dataset_name"), ("protocol",)),
    **dict.fromkeys(("empty_target", "empty_action", "on_empty"), ("empty_target_action",)),
    # Rules.
    **dict.fromkeys(
        ("remove_same_camera", "cross_camera", "exclude_same_camera", "separate_camera_set"),
        ("same_camera",),
    ),
    **dict.fromkeys(("ignore_index", "ignore_label", "ignore_labels", "junk", "junk_ids"), ("junk_identities",)),
    **dict.fromkeys(("single_gallery_shot", "single_shot", "use_metric_cuhk03"), ("gallery_draw",)),
    **dict.fromkeys(("missing", "nan_policy"), ("missing_identities",)),
    # Detection.
    **dict.fromkeys(("max_dets", "max_detections", "maxdets"), ("max_detection_thresholds",)),
    **dict.fromkeys(("num_classes", "names", "class_names", "categories"), ("class_names", "identity_names")),
    "iou": ("iou_type",),
    **dict.fromkeys(("per_class", "classwise"), ("class_metrics",)),
    # Statistics and reports.
    **dict.fromkeys(("alpha", "confidence", "confidence_level"), ("level",)),
    **dict.fromkeys(("n_boot", "n_resamples", "num_bootstraps", "n_bootstraps"), ("num_resamples",)),
    **dict.fromkeys(("n_permutations", "n_perm"), ("num_permutations",)),
    **dict.fromkeys(("images", "paths"), ("pictures",)),
}
"""arguments of other libraries, and the names here; the first name that a function has is suggested"""

ADVICE = {
    **dict.fromkeys(("normalize", "norm_feat", "feat_norm", "l2_normalize"), "`similarity='cosine'` normalizes"),
    **dict.fromkeys(("conf", "conf_thres", "score_threshold"), "do not cut at a confidence, which lowers mAP"),
    **dict.fromkeys(("agnostic", "class_agnostic"), "`average='micro'` takes all classes together"),
    **dict.fromkeys(
        ("auc", "eer", "tar", "far", "roc_auc", "tar_at_far"),
        "it is a number of verification, see `verify` and `verify_pairs`",
    ),
}
"""words of other libraries without a counterpart here, and what to do instead"""

VALUES = {
    "l2": ("euclidean",),
    **dict.fromkeys(("ip", "inner_product", "inner", "dot_product"), ("dot",)),
    **dict.fromkeys(("average", "mean", "random", "all"), ("expected",)),
    **dict.fromkeys(("mask", "masks", "segmentation", "segment"), ("segm",)),
    **dict.fromkeys(("box", "boxes", "detect"), ("bbox",)),
    "pose": ("keypoints",),
    **dict.fromkeys(("obb", "rbox", "oriented"), ("rotated",)),
    **dict.fromkeys(("yolo", "xywhn", "cxcywhn"), ("cxcywh", "yolo")),
    **dict.fromkeys(("xyxyn", "pascal_voc", "voc"), ("xyxy", "voc")),
    "coco": ("coco", "coco_captions", "xywh"),
    **dict.fromkeys(
        ("cifar10", "cifar_10", "nuswide", "nus_wide", "mirflickr", "imagenet100", "hamming"), ("hashing",)
    ),
    **dict.fromkeys(("stanford_online_products", "online_products"), ("sop",)),
    **dict.fromkeys(("sysu", "sysu_mm01"), ("sysu_mm01_all_single",)),
    **dict.fromkeys(("cub", "cub_200_2011", "birds"), ("cub200",)),
    "cars": ("cars196",),
    **dict.fromkeys(("inshop_clothes", "deepfashion"), ("inshop",)),
    "dukemtmc_reid": ("dukemtmc",),
    "market": ("market1501",),
    "veri": ("veri776",),
    **dict.fromkeys(("cuhk03", "cuhk_03"), ("cuhk03_np",)),
    "flickr": ("flickr30k",),
    **dict.fromkeys(("pitts", "pittsburgh", "pitts250k"), ("pitts30k",)),
    "oxford": ("oxford5k",),
    "paris": ("paris6k",),
    "msmt": ("msmt17",),
    "tokyo": ("tokyo247",),
    # Numbers of retrieval. Papers about metric learning call the hit rate recall.
    **dict.fromkeys(("success", "success_rate", "hit", "hits"), ("hit_rate_<k>",)),
    "recall": ("hit_rate_<k>", "recall_50"),
    **dict.fromkeys(("top", "r", "cmc", "acc", "accuracy", "rank"), ("rank_<k>",)),
    **dict.fromkeys(("p", "prec", "precision"), ("precision_<k>", "precision_50")),
    **dict.fromkeys(("ndcg", "ndcg_cut"), ("ndcg_<k>",)),
    **dict.fromkeys(("ap", "map_cut", "mean_ap", "mean_average_precision"), ("map", "map_<k>")),
    **dict.fromkeys(("map_r", "mapr", "mean_average_precision_at_r"), ("map_at_r",)),
    "rprec": ("r_precision",),
    **dict.fromkeys(("rr", "recip_rank", "reciprocal_rank", "mean_reciprocal_rank"), ("mrr", "mrr_<k>")),
    **dict.fromkeys(("medr", "med_r"), ("median_rank",)),
    **dict.fromkeys(("mnr", "meanr"), ("mean_rank",)),
    # Numbers of detection.
    **dict.fromkeys(("map50_95", "map_50_95", "map_.5_.95", "ap_.5_.95", "ap_0.5_0.95", "ap_0.50_0.95"), ("map",)),
    **dict.fromkeys(("mar", "ar", "mean_average_recall"), ("mar_100", "mar_300", "mar_<k>")),
    **dict.fromkeys(("aps", "ap_s", "ap_small"), ("map_small",)),
    **dict.fromkeys(("apm", "ap_m", "ap_medium"), ("map_medium",)),
    **dict.fromkeys(("apl", "ap_l", "ap_large"), ("map_large",)),
    **dict.fromkeys(("f1", "f_score", "f_measure"), ("f1_50", "f1")),
}
"""values of options and numbers in other libraries and in papers, and the names here; `<k>` is a cutoff"""


def normalized(word: object) -> str:
    """Return a word in lower case, with one underscore between its parts: "map_r" for "mAP@R"."""
    text = str(word).lower().replace("%", "_percent").replace("<k>", "")
    text = re.sub(r"^r@", "recall@", text)  # "R@1" is recall in metric learning, "r1" a rank
    return re.sub(r"[^a-z0-9.]+", "_", text).strip("_")


def listed(names: Iterable[object], write: Callable[[Any], str] = repr, *, near: object = None) -> str:
    """Return the first ten names for a message, and how many more there are; those spelled like `near` come first."""
    names = list(names)
    if isinstance(near, str) and len(names) > _MOST_LISTED:
        names.sort(key=lambda name: max(_ALIKE, _similarity(normalized(name), normalized(near))), reverse=True)
    text = ", ".join(map(write, names[:_MOST_LISTED]))
    return text if len(names) <= _MOST_LISTED else f"{text} and {len(names) - _MOST_LISTED:,} more"


def is_known(word: str) -> bool:
    """Return whether a word is an argument of other libraries."""
    return normalized(word) in ARGUMENTS


def argument_meant(word: str, names: Collection[str]) -> str:
    """Return a hint at the argument that was meant, such as ", which may be `k`"; "" if none is known."""
    match = name_meant(word, names, ARGUMENTS)
    return _advice(word) or ("" if match is None else f", which may be `{match}`")


def value_meant(word: object, names: Iterable[str]) -> str:
    """Return a hint at the value or the number that was meant, such as ", which may be 'dot'"; "" if none is known.

    A name of a number with a cutoff may have "<k>" instead of it: "rank_<k>".
    """
    names = list(names)
    match = name_meant(word, names, VALUES)
    if match is None:
        return _advice(word) or _advice_on_overlap(word, names)
    stem, k = _split(normalized(word))
    if stem == "recall" and match.startswith("hit_rate"):
        return f", which may be {match!r}; 'recall_{k or '<k>'}' is the share of the positives"
    return f", which may be {match!r}"


def attribute_meant(word: str, names: Collection[str]) -> str:
    """Return a hint for an unknown attribute of results with numbers by name; "" if none is known."""
    if word in ATTRIBUTES:
        return f": {ATTRIBUTES[word]}"
    match = name_meant(word, names, VALUES)
    return "" if match is None else f": write `results[{match!r}]`"


def name_meant(word: object, names: Iterable[str], table: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the name that a word stands for by a table, or else by its spelling; None if none is known."""
    key = normalized(word)
    spellings = {name: normalized(name) for name in names}
    for counterpart in _counterparts(key, table):
        if counterpart in spellings:
            return counterpart
    same_quantity = {name: spelling for name, spelling in spellings.items() if _digits(spelling) == _digits(key)}
    for name, spelling in same_quantity.items():
        if spelling.replace("_", "") == key.replace("_", ""):
            return name
    close = [name for name, spelling in same_quantity.items() if _is_alike(key, spelling)]
    if close:
        return max(close, key=lambda name: _similarity(key, spellings[name]))
    return next((name for name, spelling in same_quantity.items() if _is_cut_short(key, spelling)), None)


def _counterparts(key: str, table: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield the names in a table for a normalized word, with its cutoff instead of "<k>"."""
    yield f"map_{_overlap_in(key)}"
    yield from table.get(key, ())
    stem, k = _split(key)
    for name in table.get(stem, ()):
        if k and "<k>" in name:
            yield name.replace("<k>", k)


def _overlap_in(key: str) -> str:
    """Return the digits of the overlap in a name of AP: "50" for "map_0.5" and "ap50"; "" for other words."""
    parts = re.fullmatch(r"m?ap_?(?:0?\.(\d{1,2})|(\d\d))", key)
    return "" if parts is None else (parts[1] or parts[2]).ljust(2, "0")


def _split(key: str) -> tuple[str, str]:
    """Split a normalized word from the cutoff at its end: "recall" and "10" for "recall_at_10"."""
    parts = re.fullmatch(r"(.*?[a-z])_?([1-9]\d*)?", key)
    if parts is None:
        return key, ""
    return parts[1].removesuffix("_at"), parts[2] or ""


def _digits(key: str) -> list[str]:
    return re.findall(r"[\d.]+", key)


def _similarity(word: str, other: str) -> float:
    return SequenceMatcher(None, word, other).ratio()


def _is_alike(key: str, spelling: str) -> bool:
    """Return whether one word may be a misspelling of the other: each part for itself, so that "mean" is not "r"."""
    parts = key.split("_")
    other_parts = spelling.split("_")
    if len(parts) != len(other_parts):
        return False
    for part, other_part in zip(parts, other_parts, strict=True):
        is_short = min(len(part), len(other_part)) <= 3
        if part != other_part and (is_short or _similarity(part, other_part) < _SIMILAR):
            return False
    return True


def _is_cut_short(key: str, spelling: str) -> bool:
    """Return whether a name begins with a word of three letters at least that ends in the middle of a part."""
    rest = spelling.removeprefix(key)
    return len(key) > 2 and rest != spelling and not rest.startswith("_")


def _advice(word: object) -> str:
    advice = ADVICE.get(normalized(word))
    return "" if advice is None else f": {advice}"


def _advice_on_overlap(word: object, names: Collection[str]) -> str:
    """Return how to compute the mAP of detections at another overlap than 0.5 and 0.75."""
    overlap = _overlap_in(normalized(word))
    return f": `iou_thresholds=[0.{overlap}]` computes it" if overlap and "map_75" in names else ""


ATTRIBUTES = {
    "to_csv": "write `results.to_frame().to_csv(path)`",
    "to_pandas": "write `results.to_frame()`",
    **dict.fromkeys(("summary", "describe", "stats"), "write `print(results)`"),
    **dict.fromkeys(("ci", "confidence_interval"), "write `results.interval(name)`"),
    **dict.fromkeys(("topk", "top_k", "rank_list"), "write `results.nearest(k)`"),
    **dict.fromkeys(("all_AP", "all_ap", "ap"), "write `results.average_precision`, one value for each query"),
    **dict.fromkeys(("per_class", "ap_per_class"), "write `results.class_numbers()`"),
    **dict.fromkeys(("report", "to_html"), "write `write_report(results, path)`"),
    "to_json": "write `json.dumps(results.to_dict())`",
    "worst": "write `results.hardest(n)`",
    "p_value": "write `comparison.differences[name].p_value`",
}
"""attributes that results have in other libraries"""

IMPORTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("meanaverageprecision", "meanaveragerecall", "cocometric", "cocoevaluator"), ("DetectionMAP",)),
    **dict.fromkeys(("map", "reidmap", "averageprecision", "retrievalmap"), ("ReIDMeanAP",)),
    **dict.fromkeys(
        ("recallatk", "recall", "retrievalrecall", "hitrate", "retrievalhitrate", "retrievalprecision"),
        ("ReIDMeasure",),
    ),
    **dict.fromkeys(("retrievalmrr", "retrievalnormalizeddcg", "retrievalrprecision"), ("ReIDMeasure",)),
    **dict.fromkeys(
        ("r1_map_eval", "r1_map", "reidmetric", "evaluator", "eval_market1501", "embeddingmetrics"), ("ReIDMetrics",)
    ),
    "minp": ("ReIDMINP",),
    **dict.fromkeys(("cmc", "cmccurve"), ("ReIDCMCCurve",)),
}
"""names that other packages export, and their counterparts in this package"""
