"""Names of other libraries and of papers, and their counterparts here, for messages about unknown names.

A name is looked up before spellings are compared: no comparison of spellings finds that "labels" are identities.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

_SIMILAR = 0.75
"""similarity of two spellings, from which on one may be a misspelling of the other"""

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
    **dict.fromkeys(("indexes", "indices", "idx", "sample_id", "sample_ids"), ("index",)),
    **dict.fromkeys(("tracks", "tracklets", "track_ids"), ("groups", "gallery_groups", "sequences")),
    # How scores are made.
    **dict.fromkeys(
        ("metric", "dist_metric", "distance", "distance_metric", "dist", "similarity_metric"), ("similarity", "reports")
    ),
    **dict.fromkeys(("re_rank", "reranking", "re_ranking", "rerank_k"), ("rerank",)),
    **dict.fromkeys(("batch_size", "chunk_size", "block_size", "memory"), ("max_bytes",)),
    **dict.fromkeys(("tie", "tie_break", "tie_policy"), ("ties",)),
    # What is measured.
    **dict.fromkeys(("topk", "top_k", "k", "rank", "cutoff"), ("top_k", "ranks", "k", "reports", "max_rank")),
    "ranks": ("top_k", "reports"),
    "max_rank": ("ranks", "max_rank", "top_k"),
    **dict.fromkeys(("metrics", "measures", "measure", "metric_names"), ("reports",)),
    **dict.fromkeys(("dataset", "benchmark", "data_set", "dataset_name"), ("protocol",)),
    **dict.fromkeys(("empty_target", "empty_action", "on_empty"), ("empty_target_action",)),
    # Rules.
    **dict.fromkeys(
        ("remove_same_camera", "same_cam", "cross_camera", "exclude_same_camera", "separate_camera_set"),
        ("same_camera",),
    ),
    **dict.fromkeys(("ignore_index", "ignore_label", "ignore_labels", "junk", "junk_ids"), ("junk_identities",)),
    **dict.fromkeys(("single_gallery_shot", "single_shot", "use_metric_cuhk03"), ("gallery_draw",)),
    **dict.fromkeys(("missing", "nan_policy"), ("missing_identities",)),
    # Detection.
    **dict.fromkeys(("max_dets", "max_det", "max_detections", "maxdets"), ("max_detection_thresholds",)),
    **dict.fromkeys(("num_classes", "names", "class_names", "categories"), ("class_names", "identity_names")),
    **dict.fromkeys(("iou", "iou_thres", "iou_thresh", "iou_threshold"), ("iou_thresholds",)),
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
}
"""arguments of other libraries without a counterpart here, and what to do instead"""

VALUES = {
    **dict.fromkeys(("l2", "euclid", "sqeuclidean"), ("euclidean",)),
    **dict.fromkeys(("ip", "inner_product", "inner", "dot_product"), ("dot",)),
    **dict.fromkeys(("average", "mean", "random", "all"), ("expected",)),
    **dict.fromkeys(("mask", "masks", "segmentation", "segment"), ("segm",)),
    **dict.fromkeys(("box", "boxes", "bboxes", "detect"), ("bbox",)),
    **dict.fromkeys(("pose", "keypoint"), ("keypoints",)),
    **dict.fromkeys(("obb", "rbox", "oriented"), ("rotated",)),
    **dict.fromkeys(("yolo", "xywhn", "cxcywhn"), ("cxcywh", "yolo")),
    **dict.fromkeys(("xyxyn", "pascal_voc", "voc"), ("xyxy", "voc")),
    "coco": ("coco", "coco_captions", "xywh"),
    **dict.fromkeys(
        ("cifar10", "cifar_10", "nuswide", "nus_wide", "mirflickr", "imagenet100", "hamming"), ("hashing",)
    ),
    **dict.fromkeys(("stanford_online_products", "online_products"), ("sop",)),
    **dict.fromkeys(("sysu", "sysu_mm01"), ("sysu_mm01_all_single",)),
    **dict.fromkeys(("cub", "cub_200", "cub_200_2011", "birds"), ("cub200",)),
    **dict.fromkeys(("cars", "cars_196"), ("cars196",)),
    **dict.fromkeys(("inshop_clothes", "deepfashion"), ("inshop",)),
    **dict.fromkeys(("duke", "dukemtmc_reid"), ("dukemtmc",)),
    **dict.fromkeys(("market", "market_1501"), ("market1501",)),
    **dict.fromkeys(("veri", "veri_776"), ("veri776",)),
    **dict.fromkeys(("cuhk03", "cuhk_03"), ("cuhk03_np",)),
    **dict.fromkeys(("flickr", "flickr30"), ("flickr30k",)),
    **dict.fromkeys(("pitts", "pittsburgh", "pitts250k"), ("pitts30k",)),
    **dict.fromkeys(("oxford", "oxford5"), ("oxford5k",)),
    **dict.fromkeys(("paris", "paris6"), ("paris6k",)),
}
"""values of options in other libraries and in papers, and the names here"""

NUMBERS = {
    **dict.fromkeys(("recall", "recall_at", "success", "success_rate", "hit", "hits", "hit_at"), "hit_rate"),
    **dict.fromkeys(("top", "r", "cmc", "acc", "accuracy", "rank", "rank_at"), "rank"),
    **dict.fromkeys(("p", "prec", "precision", "precision_at"), "precision"),
    **dict.fromkeys(("ndcg", "ndcg_at", "dcg"), "ndcg"),
}
"""numbers with a cutoff in papers, and their names here"""

_WITHOUT_CUTOFF = {
    **dict.fromkeys(("map_r", "mapr", "map_at_r"), "map_at_r"),
    **dict.fromkeys(("r_prec", "rprec", "r_precision"), "r_precision"),
    **dict.fromkeys(("ap", "map", "mean_ap", "mean_average_precision"), "map"),
    "minp": "minp",
    "mrr": "mrr",
}
_VERIFICATION = ("auc", "eer", "tar", "far", "roc_auc", "tar_at_far")


def normalized(word: object) -> str:
    """Return a word in lower case, with one underscore between its parts: "map_r" for "mAP@R"."""
    return re.sub(r"[^a-z0-9.]+", "_", str(word).lower()).strip("_")


def is_known(word: str) -> bool:
    """Return whether a word is an argument of other libraries."""
    return normalized(word) in ARGUMENTS


def argument_meant(word: str, names: Collection[str]) -> str:
    """Return a hint at the argument that was meant, such as ", which may be `k`"; "" if none is known."""
    key = normalized(word)
    if key in ADVICE:
        return f": {ADVICE[key]}"
    if key in ARGUMENTS:
        matches = [name for name in ARGUMENTS[key] if name in names and name != word]
    else:
        matches = get_close_matches(key, names, n=1, cutoff=_SIMILAR)
    return f", which may be `{matches[0]}`" if matches else ""


def value_meant(word: object, names: Iterable[str]) -> str:
    """Return a hint at the value of an option that was meant, such as ", which may be 'dot'"; "" if none is known."""
    names = list(names)
    match = _find_value(normalized(word), names)
    return "" if match is None else f", which may be {match!r}"


def _find_value(key: str, names: Sequence[str]) -> str | None:
    """Return the name that a normalized word stands for; None if none is known."""
    at_iou = re.fullmatch(r"(?:map|ap)_?(?:0?\.(\d+)|(\d{2}))", key)
    if at_iou is not None:  # "mAP@0.5" and "map50" are "map_50"
        digits = (at_iou[1] or at_iou[2]).ljust(2, "0")
        counterparts: Sequence[str] = (f"map_{digits}",)
    elif key in names:
        return key
    else:
        counterparts = VALUES.get(key, ())
    for name in counterparts:
        if name in names:
            return name
    if key in VALUES:
        return None
    close = get_close_matches(key, names, n=1, cutoff=_SIMILAR)
    if close:
        return close[0]
    for name in names:
        if _is_beginning(key, name):
            return name
    return None


def _is_beginning(key: str, name: str) -> bool:
    """Return whether a name begins with a word of three letters at least, as "market1501" begins with "market"."""
    return len(key) > 2 and name.replace("_", "").startswith(key.replace("_", ""))


def number_meant(word: object, whole: Collection[str], with_cutoff: Collection[str]) -> str:
    """Return a hint at the reported number that was meant; "" if none is known.

    Args:
        word: the name that was passed.
        whole: names of numbers without a cutoff.
        with_cutoff: names of numbers that end with a cutoff, such as "rank" for "rank_5".
    """
    key = normalized(word)
    if key in _VERIFICATION:
        return ": it is a number of verification, see `verify` and `verify_pairs`"
    parts = re.fullmatch(r"([a-z_]*[a-z])_?([1-9]\d*)?", key)
    if key in _WITHOUT_CUTOFF or parts is None:
        name = _WITHOUT_CUTOFF.get(key)
        return f", which may be {name!r}" if name in whole else ""
    name, k = parts[1].removesuffix("_at"), parts[2]
    if name == "r" and "@" in str(word):  # "R@1" is recall in metric learning, "r1" a rank in re-identification
        name = "recall"
    if name in ("map", "ap", "mean_average_precision") and k:
        return f", which may be 'map_{k}'" if "map" in with_cutoff else ""
    if NUMBERS.get(name) in with_cutoff:
        return _with_cutoff(NUMBERS[name], k, is_recall=name == "recall")
    candidates = with_cutoff if k else whole
    close = get_close_matches(name, list(candidates), n=1, cutoff=_SIMILAR)
    if not close:
        return ""
    match = f"{close[0]}_{k}" if k else close[0]
    return f", which may be {match!r}"


def _with_cutoff(name: str, k: str | None, *, is_recall: bool) -> str:
    """Return a hint at a number with a cutoff; papers about metric learning call the hit rate recall."""
    if k is None:
        return f", which may be '{name}_1'; it needs its k"
    remark = f"; 'recall_{k}' is the share of the positives" if is_recall else ""
    return f", which may be '{name}_{k}'{remark}"


ATTRIBUTES = {
    "to_csv": "write `results.to_frame().to_csv(path)`",
    "summary": "write `print(results)`",
    "describe": "write `print(results)`",
    "worst": "write `results.hardest(n)`",
    "p_value": "write `comparison.differences[name].p_value`",
}
"""attributes that results have in other libraries"""

IMPORTS = {
    **dict.fromkeys(("MeanAveragePrecision", "COCOMetric", "CocoEvaluator"), "DetectionMAP"),
    **dict.fromkeys(("mAP", "MAP", "ReIDmAP", "AveragePrecision", "RetrievalMAP"), "ReIDMeanAP"),
    **dict.fromkeys(("RecallAtK", "Recall", "RetrievalRecall", "HitRate"), "ReIDMeasure"),
    **dict.fromkeys(
        ("R1_mAP_eval", "R1_mAP", "ReIDMetric", "ReidMetric", "Evaluator", "eval_market1501"), "ReIDMetrics"
    ),
    **dict.fromkeys(("mINP",), "ReIDMINP"),
    **dict.fromkeys(("cmc", "CMCCurve"), "ReIDCMCCurve"),
}
"""names that other packages export, and their counterparts in this package"""
