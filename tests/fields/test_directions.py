"""Text and images both ways: one `ReIDMetrics` with two directions has what evaluators of both directions return.

Recorded are similarities of texts (rows) and images (columns). Rows as embeddings of texts, and the unit vectors as
those of images, have them as products.
"""

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import Protocol
from tests.golden.field_cases import load_field

CASES = load_field("text_image")
BOTH = Protocol(
    "both",
    "Li et al., CVPR 2017 and Karpathy and Fei-Fei, CVPR 2015",
    same_camera="keep",
    junk_identities=(),
    empty_target_action="neg",
    reports=("map", "minp", *(f"rank_{k}" for k in range(1, 11))),
)
FLOAT32 = {"atol": 1e-5, "rtol": 1e-6}  # of numbers in percent
FLOAT64 = {"atol": 1e-9, "rtol": 0}
LEFT_OUT = {
    "clip_benchmark_recall": "one direction; recall and not hit rate",
    "eccv": "one direction; lists of positives",
    "clip4clip": "one direction",
}


def cases(*evaluators):
    """Cases without ties, on whose order the evaluators' unstable sorts would decide."""
    return [
        pytest.param(case, name, id=f"{case.name}-{name}")
        for case in CASES
        for name in evaluators
        if name in case.outputs and "ties" not in case.name
    ]


def metrics_of(similarity, texts, images, groups=None, ranks=None):
    """A collection that was given texts as queries and images as gallery."""
    metrics = ReIDMetrics(ranks, protocol=BOTH, directions=("t2i", "i2t"), similarity="dot").set_dtype(torch.float64)
    groups = {} if groups is None else {"groups": groups}
    metrics.update(np.ascontiguousarray(similarity, dtype=np.float64), texts, is_query=True, **groups)
    metrics.update(np.eye(similarity.shape[1]), images, is_query=False)
    return metrics


def captions(case, ranks=None):
    """That of a case with some captions for each image."""
    similarity = case.inputs["similarity"]
    texts = case.inputs.get("image_of_text", np.arange(len(similarity)))
    return metrics_of(similarity, texts, np.arange(similarity.shape[1]), ranks=ranks)


@pytest.mark.parametrize(("case", "name"), cases("irra_t2i", "irra_i2t"))
def test_irra(case, name):
    given, expected = case.inputs, case.outputs[name]
    values = metrics_of(given["similarity"], given["text_ids"], given["image_ids"]).compute()
    direction = name.removeprefix("irra_")
    found = {key.partition("/")[2]: 100 * float(value) for key, value in values.items() if key.startswith(direction)}
    np.testing.assert_allclose(found["map"], expected["map"], **FLOAT32)
    np.testing.assert_allclose(found["minp"], expected["minp"], **FLOAT32)
    curve = [found[f"rank_{k}"] for k in range(1, len(expected["cmc"]) + 1)]
    np.testing.assert_allclose(curve, expected["cmc"], **FLOAT32)


@pytest.mark.parametrize(("case", "name"), cases("clip_benchmark"))
def test_clip_benchmark(case, name):
    values = captions(case).compute()
    for output, expected in case.outputs[name].items():
        kind, _, k = output.partition("_retrieval_recall@")
        direction = {"image": "t2i", "text": "i2t"}[kind]
        np.testing.assert_allclose(float(values[f"{direction}/rank_{k}"]), expected, atol=1e-6)


@pytest.mark.parametrize(("case", "name"), cases("blip", "blip_video"))
def test_blip(case, name):
    metrics, expected = captions(case, ranks=(1, 5, 10)), dict(case.outputs[name])
    values = {key: 100 * float(value) for key, value in metrics.compute().items()}
    # Its text retrieval is from images to texts, and `r_mean` is the mean of the six numbers that `rsum` adds up.
    to = {"txt": "i2t", "img": "t2i", "vid": "t2i"}
    found = {f"{side}_r{k}": values[f"{way}/rank_{k}"] for side, way in to.items() for k in (1, 5, 10)}
    found |= {f"{side}_r_mean": np.mean([found[f"{side}_r{k}"] for k in (1, 5, 10)]) for side in to}
    found["r_mean"] = values["rsum"] / 600
    found["vid_mdR"] = metrics.results(direction="t2i").first_rank.quantile(0.5)
    for output, value in expected.items():
        np.testing.assert_allclose(found[output], value, err_msg=output, **FLOAT64)


@pytest.mark.parametrize(("case", "name"), cases("vsepp"))
def test_vsepp(case, name):
    metrics = captions(case, ranks=(1, 5, 10))
    values = metrics.compute()
    for direction, (*recalls, median, mean) in case.outputs[name].items():
        found = [100 * float(values[f"{direction}/rank_{k}"]) for k in (1, 5, 10)]
        np.testing.assert_allclose(found, recalls, **FLOAT64)
        ranks = metrics.results(direction=direction).first_rank
        assert float(ranks.quantile(0.5)) // 1 == median
        np.testing.assert_allclose(float(ranks.mean()), mean, **FLOAT64)
    sums = [recall for recalls in case.outputs[name].values() for recall in recalls[:3]]
    np.testing.assert_allclose(float(values["rsum"]), sum(sums), **FLOAT64)


@pytest.mark.parametrize(("case", "name"), cases("clip4clip_multi"))
def test_clip4clip_with_several_captions_ranks_a_video_by_its_best_caption(case, name):
    given, expected = case.inputs, case.outputs[name]
    video, caption = np.nonzero(np.arange(given["similarity"].shape[1]) < given["num_captions"][:, None])
    similarity = given["similarity"][video, caption]
    metrics = metrics_of(similarity, video, np.arange(similarity.shape[1]), groups=torch.from_numpy(video))
    values, by_name = metrics.compute(), {"": "t2i", "v2t_": "i2t"}
    for prefix, direction in by_name.items():
        ranks = metrics.results(direction=direction).first_rank
        found = {f"R{k}": 100 * float(values[f"{direction}/rank_{k}"]) for k in (1, 5, 10)}
        # The median of `torch.median` is the lower of the two in the middle; that of videos is NumPy's.
        found["MeanR"], found["Std_Rank"] = float(ranks.mean()), float(ranks.std(correction=0))
        found["MedianR"] = float(ranks.quantile(0.5) if prefix else ranks.median())
        found["MR"] = found["MedianR"]
        for output, value in found.items():
            if prefix + output in expected:
                np.testing.assert_allclose(value, expected[prefix + output], err_msg=output, **FLOAT32)
    np.testing.assert_array_equal(ranks.long() - 1, expected["v2t_cols"])


def test_no_recorded_evaluator_is_left_out_without_a_reason():
    compared = {"irra_t2i", "irra_i2t", "clip_benchmark", "blip", "blip_video", "vsepp", "clip4clip_multi"}
    assert {name for case in CASES for name in case.outputs} == compared | LEFT_OUT.keys()
