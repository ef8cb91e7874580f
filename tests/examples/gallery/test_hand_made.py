"""What the pages of the gallery measure, and what their text says of it, which no build would notice to be wrong."""

import sys
from functools import cache
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[3] / "examples" / "gallery"))

from hand_made.color_stripes import color_stripes
from hand_made.shape_finder import find_shapes

from detection.drawn_shapes import draw_scene
from reid.pedestrians import draw_pedestrians
from reid_torchmetrics import DetectionMAP, compare
from reid_torchmetrics.functional.retrieval import evaluate


@cache
def results(num_stripes):
    query, gallery = people().query, people().gallery
    labels = (query.identities, gallery.identities, query.cameras, gallery.cameras)
    return evaluate(color_stripes(query.pictures, num_stripes), color_stripes(gallery.pictures, num_stripes), *labels)


@cache
def people():
    return draw_pedestrians(1, 100, seed=0)


def test_a_stripe_has_the_shares_of_the_bins_of_each_color():
    grey = torch.full((1, 3, 64, 32), 100, dtype=torch.uint8)
    # Divided by its mean and 2, every color is 1/2: halfway between the third and the fourth of six bins.
    shares = color_stripes(grey, num_stripes=2).square().view(2, 3, 6)
    assert torch.allclose(shares, torch.tensor([0, 0, 0.5, 0.5, 0, 0]).expand(2, 3, 6))


def test_a_twice_as_bright_picture_has_the_same_stripes():
    dark = torch.randint(1, 128, (2, 3, 64, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert torch.allclose(color_stripes(2 * dark), color_stripes(dark), atol=1e-5)


@pytest.mark.parametrize(("slope", "label"), [(0, 1), (1, 2)])
def test_a_shape_of_one_color_is_found_where_it_is(slope, label):
    image = torch.zeros(3, 96, 96, dtype=torch.uint8)
    for row in range(40):
        image[:, 20 + row, 50 - 20 + slope * (20 - row // 2) : 50 + 20 - slope * (20 - row // 2 - 1)] = 200
    (found,) = find_shapes(image[None], contrasts=(0.1,))
    assert found["labels"].tolist() == [label]
    assert (found["boxes"] - torch.tensor([30, 20, 70, 60])).abs().max() <= 2  # the median rounds corners
    assert found["scores"].item() > 0.7


def test_most_errors_with_two_contrasts_are_shapes_that_are_found_twice():
    scenes = [draw_scene(number, seed=0) for number in range(12)]
    metric = DetectionMAP()
    metric.update(find_shapes(torch.stack([image for image, _ in scenes]), (0.05, 0.09)), [each for _, each in scenes])
    errors = metric.results(across_classes=True).error_breakdown()
    assert max(errors.counts, key=errors.counts.get) == "duplicate"


def test_two_in_five_queries_are_right_at_rank_1_with_six_stripes_and_few_with_one():
    assert 0.35 < results(6).means["rank_1"] < 0.5
    assert results(1).means["rank_1"] < 0.1
    assert results(6).means["rank_10"] > 0.8


def test_the_worst_pair_of_cameras_is_that_from_4_to_3():
    pairs = results(6).by_camera_pair("rank_1")
    worst = divmod(int(pairs.mean.nan_to_num(1.0).argmin()), 4)
    assert (pairs.query_cameras[worst[0]], pairs.gallery_cameras[worst[1]]) == (4, 3)
    assert pairs.mean[2, 3] > 2 * pairs.mean[3, 2]


def test_the_difference_in_map_is_no_chance_and_that_at_rank_1_is_larger_and_may_be():
    generator = torch.Generator().manual_seed(0)
    differences = compare(results(4), results(6), generator=generator, per_identity=True).differences
    assert differences["map"].p_value < 0.001
    assert differences["rank_1"].difference > differences["map"].difference > 0.015
    assert differences["rank_1"].low < 0 < differences["rank_1"].high < 0.08
