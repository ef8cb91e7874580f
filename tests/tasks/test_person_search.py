"""Person search: average precision by its definition, and the rule of overlap."""

import re

import pytest
import torch

from reid_torchmetrics.tasks import person_search
from tests.reference import person_search as reference

# The query is in image 0. Its person is in images 1 and 2, and two boxes overlap it in image 1.
SCENE = {
    "query_embeddings": torch.tensor([[1.0, 0.0]]),
    "embeddings": torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [0.0, 1.0], [0.8, -0.6]]),
    "boxes": torch.tensor([[0, 0, 10, 20], [0, 0, 10, 20], [0, 1, 10, 20], [50, 0, 60, 20], [0, 0, 9, 9]]).float(),
    "images": [0, 1, 1, 2, 3],
    "query_images": [0],
    "query_identities": [7],
    "true_boxes": torch.tensor([[0, 0, 10, 20], [0, 0, 10, 20], [0, 0, 10, 20], [0, 0, 9, 9]]).float(),
    "true_images": [0, 1, 2, 3],
    "true_identities": [7, 7, 7, 8],
}


def search(**options):
    return person_search(**SCENE | options)


def test_the_most_similar_box_that_overlaps_is_right_and_every_other_is_wrong():
    # Boxes 2 (right) and 4 (wrong) are equally similar, then 1, which overlaps too, and 3; image 2 has no right box.
    results = search()
    assert results["map"] == 1 / 2 / 2
    assert (results.num_positives.tolist(), results.num_candidates.tolist()) == ([2], [4])
    assert search(normalizer="hits")["map"] == 1 / 2
    lists = results.nearest(4)
    assert lists.index.tolist() == [[4, 2, 1, 3]]
    assert lists.is_positive.tolist() == [[False, True, False, False]]
    assert (lists.first_positive_rank.tolist(), lists.first_positive_index.tolist()) == ([2], [2])


def test_galleries_cameras_and_images_searched_twice():
    assert search(galleries=[[1, 0, 1]])["map"] == 1
    assert search(galleries=[[3]])["map"] == 0  # nothing to find counts 0
    # All boxes once more: 4 and 2 again come before box 2.
    assert search(galleries=[[1]], listed_twice=True)["map"] == 1 / 3
    other_cameras = {"same_camera": "all", "query_cameras": [1], "image_cameras": [1, 2, 1, 1]}
    assert search(**other_cameras)["map"] == 1


def test_random_scenes_have_the_average_precision_of_their_definition():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        num_images, num_boxes = 6, 25
        images = torch.randint(num_images, (num_boxes,), generator=generator)
        embeddings = torch.randint(-2, 3, (num_boxes, 3), generator=generator).double()
        corner = torch.randint(0, 20, (num_boxes, 2), generator=generator)
        boxes = torch.cat([corner, corner + torch.randint(5, 30, (num_boxes, 2), generator=generator)], 1).double()
        true_boxes = torch.tensor([[5.0, 5.0, 25.0, 30.0]]).double().expand(num_images, 4)
        identities = torch.randint(2, (num_images,), generator=generator)
        identities[1] = 1
        query = torch.tensor([[1.0, 0.5, 0.25]]).double()
        results = search(
            query_embeddings=query,
            embeddings=embeddings,
            boxes=boxes,
            images=images,
            query_identities=[1],
            true_boxes=true_boxes,
            true_images=torch.arange(num_images),
            true_identities=identities,
            similarity="dot",
        )
        scores = (embeddings @ query[0]).tolist()
        of_image = [
            [(tuple(boxes[each].tolist()), scores[each]) for each in range(num_boxes) if images[each] == image]
            for image in range(num_images)
        ]
        person = tuple(true_boxes[0].tolist())
        gallery = [
            reference.Image(of_image[image], person if identities[image] == 1 else None)
            for image in range(1, num_images)
        ]
        assert results["map"] == pytest.approx(reference.average_precision(gallery), abs=1e-12)


@pytest.mark.parametrize(("first", "expected"), [([0, 0, 10, 20], 1 / 2 / 2), ([50, 0, 60, 20], (1 / 2 + 2 / 4) / 2)])
def test_the_first_of_two_true_boxes_of_a_person_in_an_image_counts(first, expected):
    # In image 2 the second of them is where nothing was detected, or where box 3 is, which ranks last of four.
    second = [50, 0, 60, 20] if first[0] == 0 else [0, 0, 10, 20]
    true_boxes = torch.tensor([[0, 0, 10, 20], [0, 0, 10, 20], first, second]).float()
    results = search(true_boxes=true_boxes, true_images=[0, 1, 2, 2], true_identities=[7] * 4)
    assert results["map"] == expected
    assert results.num_positives.tolist() == [2]


def in_pixels(number=20):
    """A scene with many boxes and as many persons, the first of which are those of `SCENE`."""
    corner = torch.rand((number, 2), generator=torch.Generator().manual_seed(3)) * 300
    boxes = torch.cat([corner, corner + 40 + corner.flip(1) / 4], 1)
    images = torch.arange(number) + 10
    return {
        "embeddings": torch.cat([SCENE["embeddings"], torch.zeros(number, 2)]),
        "boxes": torch.cat([SCENE["boxes"], boxes]),
        "images": [*SCENE["images"], *images.tolist()],
        "true_boxes": torch.cat([SCENE["true_boxes"], boxes]),
        "true_images": [*SCENE["true_images"], *images.tolist()],
        "true_identities": [*SCENE["true_identities"], *range(100, 100 + number)],
    }


@pytest.mark.parametrize("name", ["boxes", "true_boxes"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_boxes_are_finite(name, value):
    boxes = SCENE[name].clone()
    boxes[2, 3] = value
    with pytest.raises(ValueError, match=rf"^`{name}` must be finite; got 1 rows with NaN or infinity, first \[2\]\.$"):
        search(**{name: boxes})


@pytest.mark.parametrize("name", ["boxes", "true_boxes"])
def test_boxes_are_corners_and_not_sizes(name):
    scene = in_pixels()
    sizes = torch.cat([scene[name][:, :2], scene[name][:, 2:] - scene[name][:, :2]], 1)
    wrong = (sizes[:, 2:] < sizes[:, :2]).any(1)
    row = int(wrong.nonzero()[0, 0])
    message = (
        f"`{name}` must be x1 y1 x2 y2, with x2 at least x1 and y2 at least y1; got {int(wrong.sum())} others of"
        f" {len(sizes)}, the first {sizes[row].double().tolist()} in row {row}."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        search(**scene | {name: sizes})


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_embeddings_of_two_dtypes_meet_in_the_wider_one(similarity):
    # In float16 all three are (1, 0).
    embeddings = torch.tensor([[1.0, 0.0], [1.0, 1e-5], [1.0, 2e-5]]).double()
    scene = {"boxes": SCENE["boxes"][[0, 1, 3]], "images": [0, 1, 2], "similarity": similarity}
    query = torch.tensor([[0.0, 1.0]]).double()
    of_both = search(**scene, query_embeddings=query, embeddings=embeddings.float())
    scores = of_both.nearest(2).scores
    assert scores.dtype == torch.float64
    of_narrow_gallery = search(**scene, query_embeddings=query + 1e-5, embeddings=embeddings.half())
    assert of_narrow_gallery.nearest(2).scores.dtype == torch.float64
    of_narrow_query = search(**scene, query_embeddings=query.half(), embeddings=embeddings)
    expected = search(**scene, query_embeddings=query, embeddings=embeddings)
    assert of_narrow_query.nearest(2).scores.tolist() == expected.nearest(2).scores.tolist()
