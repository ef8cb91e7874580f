"""The functions of pages with all arguments of the code that they replace, against its recorded outputs."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

from tests.coming_from.pages import PAGES, names
from tests.coming_from.test_places import page as of_places

PATH = Path(__file__).parents[1] / "golden" / "recipes.npz"
with np.load(PATH) as arrays:
    RECORDED = {name: arrays[name] for name in arrays.files}
NUM_QUERIES = len(RECORDED["positives"])


@pytest.mark.parametrize("feat_norm", [False, True])
@pytest.mark.parametrize("reranking", [False, True])
def test_the_class_for_transreid_has_the_recorded_curve_and_map(feat_norm, reranking):
    made = names("transreid")["R1_mAP_eval"](NUM_QUERIES, feat_norm=feat_norm, reranking=reranking)
    for _ in range(2):  # as after each epoch
        made.reset()
        for rows in np.array_split(np.arange(len(RECORDED["features"])), 4):
            labels = (tuple(RECORDED[name][rows]) for name in ("identities", "cameras"))
            made.update((torch.from_numpy(RECORDED["features"][rows]), *labels))
    curve, mean_precision, *others = made.compute()
    assert others == [None] * 5
    theirs = RECORDED[f"transreid_{feat_norm}_{reranking}"]
    assert np.append(curve, mean_precision) == pytest.approx(theirs, abs=1e-6)
    if feat_norm and reranking:
        said = re.search(r"mAP ([.\d]+) in place of (\d\.\d+)", PAGES["transreid"]).groups()
        assert [*map(float, said)] == pytest.approx([RECORDED["transreid_float16"][-1], mean_precision], abs=5e-5)


def test_the_function_for_layumi_has_the_recorded_numbers_of_single_and_of_multiple_queries(tmp_path):
    columns = {"f": "features", "label": "identities", "cam": "cameras"}
    sides = {"query": slice(NUM_QUERIES), "gallery": slice(NUM_QUERIES, None)}
    single = {f"{side}_{end}": RECORDED[name][part] for side, part in sides.items() for end, name in columns.items()}
    several = {f"mquery_{end}": RECORDED[columns[end]][RECORDED["images"]] for end in ("label", "cam")}
    files = tmp_path / "pytorch_result.mat", tmp_path / "multi_query.mat"
    scipy.io.savemat(files[0], single)
    scipy.io.savemat(files[1], several | {"mquery_f": RECORDED["image_features"]})
    for paths, theirs in zip((files[:1], files), RECORDED["layumi"], strict=True):
        curve, mean_precision = names("layumi")["evaluate_gpu"](*paths, protocol="market1501_official")
        assert [*curve[[0, 4, 9]], mean_precision] == pytest.approx(theirs, abs=1e-6)


def test_the_functions_for_places_have_the_recorded_recalls_and_positions():
    query, gallery = np.split(RECORDED["features"], [NUM_QUERIES])
    positives = [np.flatnonzero(row) for row in RECORDED["positives"]]
    cutoffs = [1, 5, 10]
    recalls = of_places()["get_validation_recalls"](gallery, query, cutoffs, positives, False, False, "drawn", False)
    assert list(recalls.values()) == pytest.approx(RECORDED["salad"])
    positions = of_places()["get_validation_recalls"](gallery, query, cutoffs, None, testing=True)
    assert np.array_equal(positions, RECORDED["salad_testing"])
    descriptors = np.concatenate([gallery, query])
    recalls = of_places()["compute_recall_performance"](
        descriptors, len(gallery), NUM_QUERIES, positives, k_values=cutoffs
    )
    assert list(recalls.values()) == pytest.approx(RECORDED["openvprlab"])
