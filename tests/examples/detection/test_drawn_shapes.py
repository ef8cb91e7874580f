"""Drawn scenes: the boxes fit what is drawn, and a seed gives the same scene again."""

import torch

from detection.drawn_shapes import CLASSES, SIDE, draw_scene


def test_a_scene_is_a_picture_and_the_boxes_inside_it():
    for number in range(20):
        image, target = draw_scene(number, seed=0)
        assert image.dtype == torch.uint8
        assert image.shape == (3, SIDE, SIDE)
        assert target["image_id"] == number
        assert 1 <= len(target["labels"]) == len(target["boxes"]) <= 5
        assert set(target["labels"].tolist()) <= set(CLASSES)
        assert target["boxes"].min() >= 0
        assert target["boxes"].max() <= SIDE
        assert (target["boxes"][:, 2:] > target["boxes"][:, :2]).all()


def test_a_box_is_as_large_as_what_is_drawn_in_it():
    image, target = draw_scene(36, seed=0)  # a rectangle without red on a ground that is full of it
    rows, columns = (image[0] < 120).nonzero().unbind(1)
    assert [CLASSES[label] for label in target["labels"].tolist()] == ["rectangle"]
    edges = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    assert target["boxes"].round().tolist() == [[int(edge) for edge in edges]]


def test_a_seed_draws_the_same_scene_again_and_another_seed_another():
    assert torch.equal(draw_scene(3, seed=1)[0], draw_scene(3, seed=1)[0])
    assert not torch.equal(draw_scene(3, seed=1)[0], draw_scene(3, seed=2)[0])
    assert not torch.equal(draw_scene(3, seed=1)[0], draw_scene(4, seed=1)[0])
