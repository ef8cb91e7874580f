"""Text and images both ways: a `ReIDMetrics` with two directions has the numbers of a call for each.

`test_text_image.py` compares such calls with what was recorded. Rows of a recorded matrix as embeddings of texts,
and the unit vectors as those of images, have its similarities as products.
"""

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate_scores
from tests.golden.field_cases import load_field


@pytest.mark.parametrize("case", load_field("text_image"), ids=lambda case: case.name)
def test_a_collection_has_the_numbers_of_both_directions(case):
    similarity, groups = case.inputs["similarity"], {}
    if "num_captions" in case.inputs:  # several captions of a video, and the best of them counts
        is_caption = np.arange(similarity.shape[1]) < case.inputs["num_captions"][:, None]
        similarity, groups = similarity[is_caption], {"groups": torch.from_numpy(np.nonzero(is_caption)[0])}
    images = case.inputs.get("image_ids", np.arange(similarity.shape[1]))
    texts = case.inputs.get("text_ids", case.inputs.get("image_of_text", groups.get("groups", images)))
    metrics = ReIDMetrics((1, 5, 10), protocol="flickr30k", directions=("t2i", "i2t"), similarity="dot")
    metrics.update(np.ascontiguousarray(similarity, dtype=np.float64), texts, is_query=True, **groups)
    metrics.update(np.eye(similarity.shape[1]), images, is_query=False)
    scores = similarity.astype(np.float64)
    of_gallery = {f"gallery_{name}": values for name, values in groups.items()}
    expected = {
        "t2i": evaluate_scores(scores, texts, images, protocol="flickr30k"),
        "i2t": evaluate_scores(scores.T.copy(), images, texts, protocol="flickr30k", **of_gallery),
    }
    values = metrics.compute()
    for direction, results in expected.items():
        found = metrics.results(direction=direction)
        assert torch.allclose(found.first_rank, results.first_rank, rtol=0, equal_nan=True)
        ranks = {f"{direction}/rank_{k}": float(results[f"rank_{k}"]) for k in (1, 5, 10)}
        assert {name: float(values[name]) for name in ranks} == pytest.approx(ranks, abs=1e-6)
    sums = [100 * float(value) for name, value in values.items() if "/rank_" in name]
    assert float(values["rsum"]) == pytest.approx(sum(sums), abs=1e-4)
