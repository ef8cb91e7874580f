"""Rank lists as pictures: every pixel of the frames, the order, and what is not known is not shown."""

import re
import sys

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval.evaluation import RankLists
from reid_torchmetrics.plot import draw_rank_lists
from reid_torchmetrics.plot.canvas import Lettering
from reid_torchmetrics.tasks import Duplicates

WHITE, GREEN, RED, DARK, PALE = (255,) * 3, (26, 152, 80), (215, 48, 39), (64,) * 3, (240,) * 3

# Of pictures 80 pixels high and 40 wide: letters of 10 pixels, so that a cell is 5 * 10 pixels wide besides its frame
# of 2; gaps of 4. A picture is in the middle of its cell.
HEIGHT, WIDTH, FRAME, GAP = 80, 50, 2, 4
STEP = WIDTH + 2 * FRAME + GAP
LINE = Lettering(10).height
TOP = GAP + LINE
"""below the heads of the columns"""
QUERY = GAP
FIRST = QUERY + STEP + 2 * GAP


def gray(number: int) -> torch.Tensor:
    """A picture that tells its number."""
    return torch.full((3, 40, 20), number, dtype=torch.uint8)


def lists(**fields) -> RankLists:
    """Query 7 finds its first right answer second. Query 9 does at rank 57, behind one candidate and padding."""
    given = {
        "query": torch.tensor([0, 1]),
        "query_index": torch.tensor([7, 9]),
        "query_identities": torch.tensor([1, 2]),
        "query_cameras": torch.tensor([3, 3]),
        "index": torch.tensor([[20, 21], [22, -1]]),
        "identities": torch.tensor([[5, 1], [5, -1]]),
        "cameras": torch.tensor([[3, 4], [4, -1]]),
        "scores": torch.tensor([[0.75, 0.5], [0.25, torch.nan]]),
        "is_positive": torch.tensor([[False, True], [False, False]]),
        "first_positive_rank": torch.tensor([2, 57]),
        "first_positive_index": torch.tensor([21, 30]),
        "first_positive_score": torch.tensor([0.5, -0.125]),
        "first_positive_camera": torch.tensor([4, 6]),
    }
    return RankLists(**(given | fields))


def draw(drawn: RankLists, **options) -> np.ndarray:
    return draw_rank_lists(drawn, gray, height=HEIGHT, **options)


def center(image: np.ndarray, left: int, top: int = TOP) -> tuple[int, ...]:
    """The pixel in the middle of the cell that begins at a corner."""
    return tuple(image[top + FRAME + HEIGHT // 2, left + FRAME + WIDTH // 2].tolist())


def frame(image: np.ndarray, left: int, top: int = TOP) -> set[tuple[int, ...]]:
    """The colors in the frame of a cell."""
    cell = image[top : top + HEIGHT + 2 * FRAME, left : left + WIDTH + 2 * FRAME].copy()
    cell[FRAME:-FRAME, FRAME:-FRAME] = cell[0, 0]
    return {tuple(pixel) for pixel in cell.reshape(-1, 3).tolist()}


def test_the_query_is_apart_from_its_candidates_in_the_order_of_the_list():
    image = draw(lists().select(torch.tensor([0])))
    assert image.dtype == np.uint8
    assert image.shape[1:] == (FIRST + 2 * STEP, 3)
    assert [center(image, left)[0] for left in (QUERY, FIRST, FIRST + STEP)] == [7, 20, 21]
    assert (image[TOP:, FIRST - 3 * GAP : FIRST] == 255).all()
    assert (image[:GAP] == 255).all()
    assert (image[:, :GAP] == 255).all()
    assert (image[:, -GAP:] == 255).all()


@pytest.mark.slow
def test_frames_say_what_is_right_and_marks_do_without_color():
    image = draw(lists())
    assert frame(image, QUERY) == {DARK}
    assert frame(image, FIRST) == {RED}
    assert frame(image, FIRST + STEP) == {GREEN}
    corners = [image[TOP + FRAME + 1 :, left + WIDTH + FRAME - 11 :][:10, :10] for left in (FIRST, FIRST + STEP)]
    is_white = [(corner == 255).all(2) for corner in corners]
    assert (is_white[0] != is_white[1]).any()
    assert is_white[0][1:-1, 1:-1].tolist() == is_white[0][1:-1, 1:-1][:, ::-1].tolist()  # a cross is symmetric
    assert is_white[1][1:-1, 1:-1].tolist() != is_white[1][1:-1, 1:-1][:, ::-1].tolist()  # a check mark is not


def test_the_first_right_answer_behind_the_list_comes_last_and_a_place_without_a_candidate_is_pale(written):
    image = draw(lists().select(torch.tensor([1])))
    last = FIRST + 2 * STEP + 2 * GAP
    assert image.shape[1] == last + STEP
    assert center(image, last)[0] == 30
    assert frame(image, last) == {GREEN}
    assert written[-2:] == ["#57  -0.125", "id 2  cam 6"]
    assert frame(image, FIRST + STEP) == {PALE}
    assert center(image, FIRST + STEP) == PALE
    none = {"first_positive_rank": torch.tensor([0, 0]), "first_positive_index": torch.tensor([-1, -1])}
    draw(lists(**none).select(torch.tensor([1])))
    assert written[-1] == "no match"


@pytest.mark.slow
def test_rows_are_below_each_other():
    image = draw(lists())
    step = (len(image) - TOP) // 2
    assert [center(image, QUERY, TOP + row * step)[0] for row in (0, 1)] == [7, 9]
    alone = draw(lists().select(torch.tensor([0])))
    pictures = slice(TOP, TOP + HEIGHT + 2 * FRAME)
    assert image[pictures, : alone.shape[1]].tolist() == alone[pictures].tolist()
    assert frame(image, FIRST + 2 * STEP + 2 * GAP) == {WHITE}


def test_captions_say_rank_score_identity_camera_and_average_precision_where_they_are_known(written):
    draw_rank_lists(lists(), gray, height=200)
    assert written == [
        *("query", "candidates", "first match"),
        *("query 7", "id 1  cam 3", "#1  0.750", "id 5  cam 3", "#2  0.500", "id 1  cam 4", "rank 2"),
        *("query 9", "id 2  cam 3", "#1  0.250", "id 5  cam 4", "#57  -0.125", "id 2  cam 6"),
    ]
    written.clear()
    of_results = torch.tensor([0.1, 0.25, 0.3254])
    draw_rank_lists(lists(query=torch.tensor([2, 0])), gray, height=200, average_precision=of_results)
    assert written[3:6] == ["query 7", "id 1  cam 3", "AP 32.5 %"]
    assert "AP 10.0 %" in written
    written.clear()
    labels = ("query_identities", "query_cameras", "identities", "cameras", "first_positive_camera")
    draw_rank_lists(lists(**dict.fromkeys(labels)), gray, height=200)
    assert written[3:] == ["query 7", "#1  0.750", "#2  0.500", "rank 2", "query 9", "#1  0.250", "#57  -0.125"]


def test_parts_of_a_line_that_is_too_wide_have_lines_of_their_own(written):
    draw(lists(identities=torch.tensor([[5, 100_000], [5, -1]])).select(torch.tensor([0])))
    assert written[2:5] == ["query 7", "id 1", "cam 3"]  # captions are even
    assert written[5:] == ["#1  0.750", "id 5", "cam 3", "#2  0.500", "id 100000", "cam 4"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"identity_names": {5: 7}}, TypeError, "`identity_names` must have strings as names; got 5: 7."),
        ({"height": 31}, ValueError, "`height` must be at least 32; got 31."),
        ({"height": 64.0}, TypeError, "`height` must be an int; got float."),
    ],
)
def test_a_wrong_option_is_named(options, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        draw_rank_lists(lists(), gray, **options)


def test_a_title_is_above_and_cut_where_it_is_too_long(written):
    short = draw(lists().first(1))
    image = draw(lists().first(1), title="hardest queries of the validation set")
    assert image.shape[0] > short.shape[0]
    assert image.shape[1] > short.shape[1]
    assert "hardest queries of the validation set" in written
    draw(lists().first(1), title="hardest " * 100)
    assert written[-1] != "hardest " * 100
    assert draw(lists().first(1), title="hardest " * 100).shape[1] <= 640


def test_no_lists_are_a_picture_that_says_so(written):
    image = draw(lists().select(torch.tensor([], dtype=torch.int64)), title="confident mistakes")
    assert written == ["confident mistakes", "no queries to show"]
    assert image.shape[2] == 3


def test_pictures_keep_their_proportions_in_cells_of_one_size():
    """Three pictures are 1:1, one is 1:4: in a cell of 80 x 80 it is 20 pixels wide, between pale margins of 30."""

    def pictures(number: int) -> torch.Tensor:
        return torch.full((3, 40, 10 if number == 21 else 40), number, dtype=torch.uint8)

    image = draw_rank_lists(lists().select(torch.tensor([0])), pictures, height=80)
    step = 80 + 2 * FRAME + GAP
    first = GAP + step + 2 * GAP
    row = image[GAP + FRAME + 40]
    assert (row[first + FRAME :][:80] == 20).all()
    narrow = row[first + step + FRAME :][:80]
    assert (narrow[:30] == 240).all()
    assert (narrow[30:50] == 21).all()
    assert (narrow[50:] == 240).all()


def test_the_gallery_may_be_another_data_set():
    image = draw(lists(index=torch.tensor([[7, 9], [9, -1]])), gallery_pictures=lambda number: gray(100 + number))
    assert [center(image, left)[0] for left in (QUERY, FIRST, FIRST + STEP)] == [7, 107, 109]


@pytest.mark.parametrize(("argument", "number"), [("pictures", 7), ("gallery_pictures", 20)])
def test_a_missing_picture_is_named(argument, number):
    message = f"`{argument}` must have a picture for each number; got none for {number}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        draw_rank_lists(lists(), **({"pictures": gray} | {argument: [gray(0)]}))


def test_without_pillow_the_error_says_how_to_install_it(monkeypatch):
    for module in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, module, None)
    said = r"^A grid of pictures needs Pillow: pip install '\.\[plot\]' in a clone of the repository\.$"
    with pytest.raises(ModuleNotFoundError, match=said):
        draw(lists())


def duplicates(*, within: bool = False) -> Duplicates:
    """Pairs with the scores 0.5, 1 and 0.75."""
    pairs = torch.tensor([[0, 1, 2], [3, 4, 5]])
    return Duplicates(*pairs, torch.tensor([0.5, 1.0, 0.75]), within, "cosine", 0.5, num_queries=6)


def small_gray(number: int) -> torch.Tensor:
    """A picture that tells its number."""
    return torch.full((3, 40, 20), 20 * number, dtype=torch.uint8)


def shown(image: np.ndarray) -> list[int]:
    """The numbers of the pictures in the first row, from their pixels."""
    row = image[80, :, 0]
    places = np.flatnonzero(np.diff(row, prepend=255))
    return [int(row[place]) // 20 for place in places if row[place] not in (255, 240, 64)]


def test_the_highest_scores_come_first_with_both_pictures(written):
    query, gallery = ([small_gray(start + number) for number in range(6)] for start in (1, 5))
    image = duplicates().plot(query, gallery, k=2)
    assert image.dtype == np.uint8
    assert shown(image) == [2, 9, 3, 10]
    # Cells of 64 pixels with frames of 3, and gaps of 6; the second pair is apart by two more.
    assert image.shape[1] == 4 * (64 + 2 * 3) + 5 * 6 + 2 * 6
    assert " ".join(written).split() == ["query", "1", "item", "4", "1.000", "query", "2", "item", "5", "0.750"]


def test_within_one_set_both_pictures_are_of_it(written):
    pictures = torch.stack([small_gray(number) for number in range(1, 7)])
    assert shown(duplicates(within=True).plot(pictures)) == [2, 5, 3, 6, 1, 4]
    assert " ".join(written).split()[-5:] == ["query", "0", "item", "3", "0.500"]


def test_a_wrong_value_is_named():
    with pytest.raises(ValueError, match="`gallery_images` must be given for pairs of two sets; got None"):
        duplicates().plot(small_gray)
    with pytest.raises(ValueError, match=re.escape("`k` must be at least 1; got 0.")):
        duplicates().plot(small_gray, small_gray, k=0)
    with pytest.raises(ValueError, match=re.escape("`gallery_images` must have a picture for each number")):
        duplicates().plot(small_gray, [small_gray(0)])
