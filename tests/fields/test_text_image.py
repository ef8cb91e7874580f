"""Text, images and video: each recorded problem by one call for each direction."""

from typing import Any

import numpy as np
import pytest

from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate_scores
from tests.fields.comparisons import SINGLE, assert_equal
from tests.golden.field_cases import FieldCase, load_field

LEFT_OUT = {
    ("*", "*_ties"): "equal scores in the order of an unstable sort, or counted several times (CLIP4Clip)",
    ("eccv", "coco1k_r1"): "a mean over five subsets of queries and gallery: one call for each",
}
IN_FLOAT32 = dict.fromkeys(
    ("irra_t2i", "irra_i2t", "clip_benchmark", "clip_benchmark_recall", "clip4clip_multi"), SINGLE
)
RECALLS = ("rank_1", "rank_5", "rank_10")
RANKS = ("median_rank", "median_rank_lower", "median_rank_floor", "mean_rank")
OURS = {"recall@1": "rank_1", "recall@5": "rank_5", "recall@10": "rank_10"}


def percent(results: RetrievalResults, *names: str) -> list[float]:
    return [100 * results[name] for name in names]


def person_text(case: FieldCase) -> dict[tuple[str, str], Any]:
    texts, images = (case.inputs[name] for name in ("text_ids", "image_ids"))
    scores = case.inputs["similarity"]
    directions = {"irra_t2i": (scores, texts, images), "irra_i2t": (scores.T.copy(), images, texts)}
    found = {}
    for evaluator, arrays in directions.items():
        results = evaluate_scores(*arrays, protocol="cuhk_pedes", max_rank=10)
        values = {"cmc": 100 * results.cmc, "map": 100 * results["map"], "minp": 100 * results["minp"]}
        found |= {(evaluator, name): value for name, value in values.items()}
    return found


def captions(case: FieldCase) -> dict[tuple[str, str], Any]:
    scores, texts = case.inputs["similarity"], case.inputs["image_of_text"]
    images, reports = np.arange(scores.shape[1]), (*RECALLS, *RANKS, "recall_5")
    to_image = evaluate_scores(scores, texts, images, protocol="flickr30k", reports=reports)
    to_text = evaluate_scores(scores.T.copy(), images, texts, protocol="flickr30k", reports=reports)
    found: dict[tuple[str, str], Any] = {("clip_benchmark_recall", "text_5"): to_text.per_query["recall_5"]}
    for theirs, results in (("image", to_image), ("text", to_text)):
        found |= {("clip_benchmark", f"{theirs}_retrieval_{k}"): results[name] for k, name in OURS.items()}
    found |= both_ways("blip", {"txt": to_text, "img": to_image})
    for direction, results in (("i2t", to_text), ("t2i", to_image)):
        found["vsepp", direction] = [*percent(results, *RECALLS), results["median_rank_floor"], results["mean_rank"]]
    return found | positives_of_lists(case)


def positives_of_lists(case: FieldCase) -> dict[tuple[str, str], Any]:
    lists = [{"ok": positives} for positives in case.lists("eccv_positives")]
    reports = {
        "eccv_map_at_r": "map_at_r",
        "eccv_rprecision": "r_precision",
        "rprecision_fn": "r_precision",
        "eccv_r1": "hit_rate_1",
        "r5": "hit_rate_5",
    }
    scores = case.inputs["similarity"].T.copy()
    results = evaluate_scores(
        scores, ground_truth=lists, protocol="flickr30k", reports=tuple(dict.fromkeys(reports.values()))
    )
    return {("eccv", theirs): results[name] for theirs, name in reports.items()}


def both_ways(evaluator: str, directions: dict[str, RetrievalResults]) -> dict[tuple[str, str], Any]:
    """Recalls of both directions, their means, and the mean of all six."""
    recalls = {direction: percent(results, *RECALLS) for direction, results in directions.items()}
    found = {
        (evaluator, f"{direction}_r{name.removeprefix('rank_')}"): value
        for direction, values in recalls.items()
        for name, value in zip(RECALLS, values, strict=True)
    }
    found |= {(evaluator, f"{direction}_r_mean"): np.mean(values) for direction, values in recalls.items()}
    return found | {(evaluator, "r_mean"): np.mean([*recalls.values()])}


def video(case: FieldCase) -> dict[tuple[str, str], Any]:
    scores, numbers = case.inputs["similarity"], np.arange(len(case.inputs["similarity"]))
    to_video, to_text = (
        evaluate_scores(each, numbers, numbers, protocol="msrvtt") for each in (scores, scores.T.copy())
    )
    return (
        {("clip4clip", name): value for name, value in clip4clip(to_video).items()}
        | both_ways("blip_video", {"txt": to_text, "vid": to_video})
        | {("blip_video", "vid_mdR"): to_video["median_rank"]}
    )


def clip4clip(results: RetrievalResults, median: str = "median_rank") -> dict[str, Any]:
    values = dict(zip(("R1", "R5", "R10"), percent(results, *RECALLS), strict=True))
    ranks = {"MR": results[median], "MedianR": results[median], "MeanR": results["mean_rank"]}
    return values | ranks | {"cols": results.first_rank - 1, "Std_Rank": results.first_rank.std(correction=0)}


def video_captions(case: FieldCase) -> dict[tuple[str, str], Any]:
    scores, num_captions = case.inputs["similarity"], case.inputs["num_captions"]
    videos = np.repeat(np.arange(len(scores)), num_captions)
    rows = np.concatenate([of_video[:number] for of_video, number in zip(scores, num_captions, strict=True)])
    results = evaluate_scores(
        rows, videos, np.arange(len(scores)), protocol="msrvtt", reports=(*RECALLS, "median_rank_lower", "mean_rank")
    )
    to_text = evaluate_scores(
        rows.T.copy(),
        np.arange(len(scores)),
        videos,
        gallery_groups=videos,
        protocol="msrvtt",
        reports=(*RECALLS, *RANKS),
    )
    found = {("clip4clip_multi", name): value for name, value in clip4clip(results, "median_rank_lower").items()}
    return found | {("clip4clip_multi", f"v2t_{name}"): value for name, value in clip4clip(to_text).items()}


CALLS = {"person_text": person_text, "captions": captions, "video": video, "video_captions": video_captions}


@pytest.mark.parametrize("case", load_field("text_image"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    kind = case.name.partition("_")[2].removesuffix("_ties")
    assert_equal(case, CALLS[kind](case), LEFT_OUT, IN_FLOAT32)
