"""Person search: average precision by its definition, and the rule of overlap."""

import pytest
import torch

from reid_torchmetrics.functional.retrieval import person_search
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
def test_of_a_person_with_two_true_boxes_in_an_image_the_first_counts(first, expected):
    # In image 2 the second of them is where nothing was detected, or where box 3 is, which ranks last of four.
    second = [50, 0, 60, 20] if first[0] == 0 else [0, 0, 10, 20]
    true_boxes = torch.tensor([[0, 0, 10, 20], [0, 0, 10, 20], first, second]).float()
    results = search(true_boxes=true_boxes, true_images=[0, 1, 2, 2], true_identities=[7] * 4)
    assert results["map"] == expected
    assert results.num_positives.tolist() == [2]
