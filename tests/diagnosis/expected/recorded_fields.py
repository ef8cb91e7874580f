"""The recorded numbers of neighboring fields, and the searches of the calls that a user would make."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np

from reid_torchmetrics.diagnosis.expected.rows import CUTOFFS
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from reid_torchmetrics.tasks import evaluate_lists, person_search
from tests.diagnosis.expected.searches import CURVE, Number, Search, search_in
from tests.fields import test_clothes, test_infrared, test_lists, test_person_search, test_tracks, test_vpr
from tests.golden.field_cases import FieldCase, load_field

UNSTABLE = "equal scores in the order of an unstable sort"
OTHER_RESULTS = "no number of ranks: another evaluation"
SEVERAL = "one number for each class, camera, subset or query, or of both directions"
LEFT_OUT = {
    "*_ties/*": UNSTABLE,
    "vpr/*/vme_positives/*": OTHER_RESULTS,
    "vpr/*/vme/predictions": OTHER_RESULTS,
    "lists/*/faiss/*": OTHER_RESULTS,
    "lists/*/gld/position_10": OTHER_RESULTS,
    "lists/*/hotels/chain": "labels of chains, and queries with a known one alone",
    "lists/*/whale/*": "lists of labels, and one positive each",
    "open_set/*": OTHER_RESULTS,
    "clothes/*/prcc_draws/*": "drawn galleries",
    "clothes/*/fire_prcc/*": "0 / 0 where a query has no positive",
    "infrared/*/llcm_draws/*": "drawn galleries",
    "text_image/*/*r_mean": SEVERAL,
    "text_image/*cols": SEVERAL,
    "text_image/*Std_Rank": "a deviation",
    "text_image/*/eccv/coco1k_r1": SEVERAL,
    "tracks/*/ap_by_camera": SEVERAL,
    "tracks/*/aicity_tracks/*": "a re-ranking",
    "tracks/*/aicity_eval_func/*": "drops the query's identity in other cameras where the gallery has one camera",
    "tracks/*/first_pids": OTHER_RESULTS,
    "tracks/*/printed": "its other numbers, rounded",
    "clothes/c0[01]*/simple_ccreid_cc/*": "0 where no query has a positive",
    "tracks/*/ap": SEVERAL,
    "person_search/*/detection/*": OTHER_RESULTS,
    "person_search/*/cuhk_full/*": "each image of the gallery twice",
    "gait/*": SEVERAL,
    "histology/*": SEVERAL,
    "other/*/dino_knn*": OTHER_RESULTS,
    "other/*/cross_modal/*": UNSTABLE,
    "other/*/shrec22/ndcg_10": "its ideal list has 10 hits, also where there are fewer positives",
    "other/*/anmrr_ranks/*": "counts ranks from 0",
}
"""recorded outputs that no search of ranks gives, by patterns of their keys, and why"""
LEFT_OUT |= {
    f"lists/*/{evaluator}/{pattern.removeprefix('*/')}": why
    for (evaluator, pattern), why in test_lists.LEFT_OUT.items()
}
K_OF_LISTS = {"precisions_10": range(1, 11), "instance": (1, 10, 100), "top_1_5_10": (1, 5, 10)}
"""the cutoffs of outputs that are several numbers"""
OF_PLACES = (1, 5, 10, 20)


def of_fields() -> Iterator[Number]:
    """All numbers of fields but those that are left out."""
    for field, searches in SEARCHES.items():
        for case in load_field(field):
            for evaluator, outputs in case.outputs.items():
                for output, value in outputs.items():
                    key = f"{field}/{case.name}/{evaluator}/{output}"
                    if not any(fnmatchcase(key, pattern) for pattern in LEFT_OUT):
                        search = partial(cached_search, field, case.name, searches, evaluator, output)
                        yield from numbers_of(key, np.asarray(value, dtype=float), search)


def numbers_of(key: str, value: np.ndarray, search: Callable[[], Search]) -> Iterator[Number]:
    """The numbers in an output: itself, those at cutoffs, or the mean of the values of queries."""
    output = key.rpartition("/")[2]
    if value.ndim == 0:
        values = {"": value}
    elif output == "cmc":
        values = {f" at {k}": value[k - 1] for k in CURVE if k <= len(value)}
    elif output in K_OF_LISTS or key.startswith("vpr"):
        values = {k: each for k, each in zip(K_OF_LISTS.get(output, OF_PLACES), value, strict=False) if k in CUTOFFS}
    elif output in ("i2t", "t2i"):
        values = dict(enumerate(value))
    else:
        values = {" (mean)": np.nanmean(value) if len(value) and not np.isnan(value).all() else np.nan}
    for place, number in values.items():
        if np.isfinite(number):
            yield Number(f"{key} {place}", float(number), search)


CACHE: dict[Any, Search] = {}


def cached_search(field: str, name: str, searches: Mapping[str, Any], evaluator: str, output: str) -> Search:
    """The search of a case for an evaluator, made once for all with equal calls."""
    case = next(case for case in load_field(field) if case.name == name)
    key, make = searches(case, evaluator, output)
    if (field, name, key) not in CACHE:
        CACHE[field, name, key] = make()
    return CACHE[field, name, key]


def vpr(case: FieldCase, evaluator: str, _: str) -> Any:
    positions = {f"{side}_positions": case.inputs[f"{side}_positions"] for side in ("query", "gallery")}
    options = {"protocol": "pitts30k", **test_vpr.EUCLIDEAN, **positions}
    if evaluator == "openibl_nms":
        options |= {"protocol": "tokyo247", "gallery_groups": case.inputs["gallery_places"]}
    return options["protocol"], lambda: search_in(evaluate, case.inputs["query"], case.inputs["gallery"], **options)


def lists(case: FieldCase, evaluator: str, output: str) -> Any:
    if evaluator in ("trec_eval", "ranx", "ir_measures"):
        least = 2 if "rel=2" in output else 1
        return least, lambda: search_in(evaluate_lists, test_lists.run(case), test_lists.judged(case, least))
    if evaluator == "hotels":
        labels = {"query_identities": case.inputs["query_class"], "gallery_identities": case.inputs["gallery_class"]}
        return evaluator, lambda: search_in(evaluate_lists, case.inputs["retrieved"], **labels)
    return "lists", lambda: search_in(evaluate_lists, *test_lists.given(case))


def clothes(case: FieldCase, _: str, __: str) -> Any:
    labels = {
        f"{side}_{name}": values
        for side in ("query", "gallery")
        for name, values in test_clothes.given(case, side).items()
    }
    has_clothes = "query_clothes" in labels
    protocol = "ltcc" if has_clothes else "prcc"
    return protocol, lambda: search_in(evaluate_scores, -case.inputs["distances"], **labels, protocol=protocol)


def infrared(case: FieldCase, evaluator: str, _: str) -> Any:
    junk_pairs = test_infrared.two_for_three(case) if evaluator == "eval_sysu" else None
    names = ("query_ids", "gallery_ids", "query_cameras", "gallery_cameras")
    labels = (case.inputs[name] for name in names)
    options = {**test_infrared.CALLS[evaluator], "junk_pairs": junk_pairs}
    return evaluator, lambda: search_in(evaluate_scores, -case.inputs["distances"], *labels, **options)


def text_image(case: FieldCase, evaluator: str, output: str) -> Any:
    scores = case.inputs["similarity"]
    kind = case.name.partition("_")[2]
    if kind == "person_text":
        arrays = [scores, case.inputs["text_ids"], case.inputs["image_ids"]]
        is_turned, options = evaluator == "irra_i2t", {"protocol": "cuhk_pedes"}
    elif kind == "captions":
        arrays = [scores, case.inputs["image_of_text"], np.arange(scores.shape[1])]
        is_turned = output.startswith(("text", "txt", "i2t")) or evaluator == "eccv"
        options = {"protocol": "flickr30k"}
        if evaluator == "eccv":
            positives = [{"ok": places} for places in case.lists("eccv_positives")]
            matrix = scores.T.copy()
            return "lists", lambda: search_in(evaluate_scores, matrix, ground_truth=positives, **options)
    elif kind == "video":
        numbers = np.arange(len(scores))
        arrays, is_turned, options = [scores, numbers, numbers], output.startswith("txt"), {"protocol": "msrvtt"}
    else:
        num_captions = case.inputs["num_captions"]
        videos = np.repeat(np.arange(len(scores)), num_captions)
        rows = np.concatenate([of[:number] for of, number in zip(scores, num_captions, strict=True)])
        arrays, is_turned = [rows, videos, np.arange(len(scores))], output.startswith("v2t")
        options = {"protocol": "msrvtt"} | ({"gallery_groups": videos} if is_turned else {})
    if is_turned:
        matrix, queries, gallery = arrays
        arrays = [matrix.T.copy(), gallery, queries]
    return is_turned, lambda: search_in(evaluate_scores, *arrays, **options)


def tracks(case: FieldCase, evaluator: str, _: str) -> Any:
    is_city = evaluator == "aicity_map100"
    labels = [case.inputs[name] for name in test_tracks.LABELS[: 2 if is_city else 4]]
    options = {"ties": "stable"} | ({"k": case.options["topk"]} if is_city else {})
    if "image_to_track" in case.name:
        options |= {"protocol": "veri776_image_to_track", "gallery_groups": case.inputs["gallery_tracks"]}
    return is_city, lambda: search_in(evaluate_scores, -case.inputs["distances"], *labels, **options)


def persons(case: FieldCase, evaluator: str, _: str) -> Any:
    scene = test_person_search.scene_of(case)
    options = {"galleries": case.lists("galleries")} if evaluator == "cuhk" else {"protocol": "prw"}
    if evaluator == "prw_cross_camera":
        cameras = case.inputs["image_cameras"]
        options |= {
            "same_camera": "all",
            "query_cameras": cameras[case.inputs["query_image"]],
            "image_cameras": cameras,
        }
    return evaluator, lambda: search_in(person_search, *scene["detections"], **scene["scene"], **options)


def other(case: FieldCase, evaluator: str, output: str) -> Any:
    scores = case.inputs["similarity"]
    if evaluator == "deephash":
        positives = [{"ok": row.nonzero()[0]} for row in case.inputs["relevant"]]
        k = {"k": int(output.removeprefix("map_"))}
        return output, lambda: search_in(evaluate_scores, scores, ground_truth=positives, protocol="hashing", **k)
    labels = [case.inputs[name] for name in ("query_ids", "gallery_ids")]
    cutoff = output.partition("_")[2]
    k = {"k": min(int(cutoff), scores.shape[1])} if cutoff.isdigit() else {}
    reports = {"prec": f"precision_{k.get('k', 1)}", "rec": f"recall_{k.get('k', 1)}"}
    k["reports"] = (reports.get(output.partition("_")[0], "map"),)
    return output, lambda: search_in(evaluate_scores, scores, *labels, protocol="sketchy", **k)


SEARCHES = {
    "vpr": vpr,
    "lists": lists,
    "clothes": clothes,
    "infrared": infrared,
    "text_image": text_image,
    "tracks": tracks,
    "person_search": persons,
    "other": other,
}
