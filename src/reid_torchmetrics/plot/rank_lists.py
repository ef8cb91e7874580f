"""Rank lists as rows of framed pictures with captions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.evaluation import RankLists, RetrievalResults
from reid_torchmetrics.tasks import Duplicates

from .canvas import DARK, GRAY, GREEN, PALE, RED, Box, Canvas, Image, Lettering
from .glyphs import one_warning_of_glyphs
from .pictures import Pictures, picture_at

_LEAST_HEIGHT = 32
_LEAST_ASPECT = 1 / 3  # width of a cell over its height
_LARGEST_ASPECT = 2.0
_DEFAULT_ASPECT = 0.5  # without pictures
_WIDEST_FOR_TITLE = 640
_PICTURES_PER_ROW = 10  # of duplicates
_DUPLICATE_HEIGHT = 128
_SPACE = "  "
_NO_ROWS = "no queries to show"
_ROUNDING = 1e-9  # an average precision of 1 may be less by rounding
_FRAME_COLORS = {"": DARK, "check": GREEN, "cross": RED}
"""colors of frames by the mark of the picture"""
_SIGNS = {"": "", "check": "\N{CHECK MARK}", "cross": "\N{BALLOT X}"}
"""signs in a caption that is text, by the mark of the picture"""


@one_warning_of_glyphs()
def draw_rank_lists(
    rank_lists: RankLists,
    pictures: Pictures,
    *,
    gallery_pictures: Pictures | None = None,
    identity_names: Mapping[int, str] | None = None,
    height: int = 160,
    title: str | None = None,
    average_precision: Tensor | None = None,
) -> NDArray[np.uint8]:
    """Draw one row for each list: the query, its first candidates, and the first right answer if it is not among them.

    Right candidates have a green frame with a check mark, wrong ones a red frame with a cross. Below a candidate are
    its rank and score, and its identity and camera if they are known. Behind the list is the first match with its rank;
    if there is none, or if it is a candidate, a remark says so. Places behind the last candidate are pale.
    Pictures keep their proportions; a cell has those of the median picture. Text that is too long is cut. Letters with
    accents, Greek and Cyrillic letters need Matplotlib's fonts; Chinese characters are empty boxes.

    A picture is an image of Pillow; a NumPy array of uint8, [H, W, 3], [H, W, 4] or [H, W]; a tensor [3, H, W] of uint8
    or of floats in [0, 1]; or an item of a data set: a tuple that begins with one of these, or a dict that has it as
    "image".

    Args:
        rank_lists: such as `results.nearest(10)`, or `lists.select(lists.confident_mistakes(10))`.
        pictures: of the queries by `query_index`, and of the gallery by `index`: a function of the number, or something
            indexed by it, such as a data set.
        gallery_pictures: of the gallery, if it is another data set than that of the queries, as it is if the evaluation
            has no `index`; None for `pictures`.
        identity_names: of the identities; without one the name in the evaluation is shown, or the number.
        height: of a picture, in pixels.
        title: a line above all rows.
        average_precision: [queries of the results], such as `results.average_precision`, which is written below each
            query; None for no such line.

    Returns:
        An image [H, W, 3]; the text "no queries to show" if there are no lists.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        TypeError: `height` is not an int, or a picture is of another type.
        ValueError: `height` is below 32, or a picture is missing or has another shape or other values.
    """
    _checks.positive_int("height", height, least=_LEAST_HEIGHT)
    _checks.names_of_labels("identity_names", identity_names)
    rows = []
    for row in range(len(rank_lists)):
        precision = None
        if average_precision is not None:
            precision = float(average_precision[rank_lists.query[row]])
        rows.append(_cells_of_list(rank_lists, row, pictures, gallery_pictures, identity_names or {}, precision))
    headings = {0: "query", 1: "candidates", rank_lists.index.shape[1] + 1: "first match"}
    rank = rank_lists.first_positive_rank
    num_candidates = (rank_lists.index >= 0).sum(1)
    is_candidate = (rank >= 1) & (rank <= num_candidates)
    if bool(is_candidate.all()):  # nothing is behind the candidates
        rows = [cells[:-1] for cells in rows]
    return _draw_rows(rows, headings, height, title or "")


def hardest_queries(results: RetrievalResults, num_queries: int) -> tuple[Tensor, str]:
    """Return up to `num_queries` queries with an average precision below 1, the lowest first, and how many there are.

    The number is a sentence, such as "5 of 24 queries are not perfect".
    """
    precision = results.average_precision
    num_valid = int((~precision.isnan()).sum())
    num_imperfect = int((precision < 1 - _ROUNDING).sum())
    verb = "is" if num_imperfect == 1 else "are"
    sentence = f"{num_imperfect:,} of {counted(num_valid, 'query')} {verb} not perfect"
    if num_valid == 0:
        sentence = "No query has a match in the gallery"
    elif num_imperfect == 0:
        sentence = f"All {num_valid:,} queries are perfect" if num_valid > 1 else "The query is perfect"
    return results.hardest(num_queries)[:num_imperfect], sentence


@one_warning_of_glyphs()
def draw_duplicates(
    found: Duplicates, query_images: Pictures, gallery_images: Pictures | None = None, *, k: int = 10
) -> NDArray[np.uint8]:
    """Draw the pairs with the highest scores, for `Duplicates.plot`."""
    _checks.positive_int("k", k)
    if gallery_images is None and not found.within_one_set:
        raise ValueError("`gallery_images` must be given for pairs of two sets; got None.")
    item_source = ("query_images", query_images)
    if gallery_images is not None:
        item_source = ("gallery_images", gallery_images)
    best = found.score.argsort(descending=True, stable=True)[:k]
    queries = found.query[best].tolist()
    items = found.gallery[best].tolist()
    values = found.column[1][best].tolist()
    cells = []
    for query, item, value in zip(queries, items, values, strict=True):
        cells.append(_Cell(picture_at("query_images", query_images, query), caption=((f"query {query}",),)))
        cells.append(_Cell(picture_at(*item_source, item), caption=((f"item {item}", f"{value:.3f}"),)))
    rows = [cells[start : start + _PICTURES_PER_ROW] for start in range(0, len(cells), _PICTURES_PER_ROW)]
    # Each pair is set apart.
    headings = dict.fromkeys(range(0, _PICTURES_PER_ROW, 2), "")
    return _draw_rows(rows, headings, _DUPLICATE_HEIGHT, "")


class ListedPicture(NamedTuple):
    """A picture of a rank list with its labels."""

    kind: str
    """"query", "right", "wrong", or "first" for the first right answer if it is not among the candidates"""
    number: int
    """number of the sample"""
    picture: Callable[[], Image]
    labels: Sequence[str]
    """the identity and the camera, if they are known"""
    rank: int = 0
    score: float = math.nan


def listed_pictures(
    lists: RankLists,
    row: int,
    pictures: Pictures,
    gallery: Pictures | None,
    names: Mapping[int, str],
    *,
    space: str = " ",
) -> list[ListedPicture]:
    """Return the query, its candidates, and the first right answer if it is not among them.

    Identities have their names in `names` or in the evaluation; `space` is before the number of a label without one.
    """
    gallery_source = ("pictures", pictures) if gallery is None else ("gallery_pictures", gallery)
    label_names = lists.label_names or {}

    def write_labels(identity: int | None, camera: int | None) -> list[str]:
        texts = []
        if identity is not None:
            default = label_names.get("identities", {}).get(identity, f"id{space}{identity}")
            texts.append(names.get(identity, default))
        if camera is not None:
            texts.append(label_names.get("cameras", {}).get(camera, f"cam{space}{camera}"))
        return texts

    identity = _numbers_at(lists.query_identities, row)
    labels = write_labels(identity, _numbers_at(lists.query_cameras, row))
    query = int(lists.query_index[row])
    listed = [ListedPicture("query", query, partial(picture_at, "pictures", pictures, query), labels)]
    unknown = [None] * lists.index.shape[1]
    identities = _numbers_at(lists.identities, row) or unknown
    cameras = _numbers_at(lists.cameras, row) or unknown
    is_positive = lists.is_positive[row].tolist()
    scores = lists.scores[row].tolist()
    for place, number in enumerate(lists.index[row].tolist()):
        if number >= 0:  # places behind the last candidate have -1
            kind = "right" if is_positive[place] else "wrong"
            picture = partial(picture_at, *gallery_source, number)
            labels = write_labels(identities[place], cameras[place])
            listed.append(ListedPicture(kind, number, picture, labels, place + 1, scores[place]))
    first_rank = int(lists.first_positive_rank[row])
    if first_rank >= len(listed):
        number = int(lists.first_positive_index[row])
        picture = partial(picture_at, *gallery_source, number)
        labels = write_labels(identity, _numbers_at(lists.first_positive_camera, row))
        score = float(lists.first_positive_score[row])
        listed.append(ListedPicture("first", number, picture, labels, first_rank, score))
    return listed


def _numbers_at(values: Tensor | None, row: int) -> Any:
    """Return the number or the numbers in a row of a tensor; None without values."""
    return None if values is None else values[row].tolist()


class _Cell(NamedTuple):
    """A picture with its frame and caption; without a picture a remark, or a pale place."""

    image: Image | None = None
    mark: str = ""
    """in the upper right corner: "check" or "cross" """
    caption: Sequence[Sequence[str]] = ()
    """the lines below the picture, each as its parts: parts of a line that is too wide have lines of their own"""
    remark: Sequence[str] = ()
    """lines in the place of the picture"""


def captioned_pictures(
    lists: RankLists, row: int, pictures: Pictures, gallery_pictures: Pictures | None, names: Mapping[int, str]
) -> list[tuple[Image, str] | None]:
    """Return the query, its candidates and the first right answer, with captions; None where there is no picture."""
    captioned: list[tuple[Image, str] | None] = []
    for cell in _cells_of_list(lists, row, pictures, gallery_pictures, names):
        if cell.image is None:
            captioned.append(None)
            continue
        parts = [_SIGNS[cell.mark]]
        for line in cell.caption:
            parts.extend(line)
        captioned.append((cell.image, _SPACE.join(parts).strip()))
    return captioned


def _cells_of_list(
    lists: RankLists,
    row: int,
    pictures: Pictures,
    gallery_pictures: Pictures | None,
    names: Mapping[int, str],
    average_precision: float | None = None,
) -> list[_Cell]:
    """Return the cells of a list: the query, its candidates, and the first right answer behind the candidates.

    Pale cells stand for candidates that are lacking. If the first right answer is a candidate, or there is none, a
    remark says so.
    """
    listed = listed_pictures(lists, row, pictures, gallery_pictures, names)
    query, *candidates = map(_make_cell, listed)
    if average_precision is not None:
        query = query._replace(caption=(*query.caption, (f"AP {100 * average_precision:.1f} %",)))
    rank = int(lists.first_positive_rank[row])
    if listed[-1].kind == "first":
        first = candidates.pop()
    elif rank > 0:
        first = _Cell(remark=(f"rank {rank}",))
    else:
        first = _Cell(remark=("no match",))
    num_lacking = lists.index.shape[1] - len(candidates)
    return [query, *candidates, *[_Cell()] * num_lacking, first]


def _make_cell(listed: ListedPicture) -> _Cell:
    """Return the cell of a picture of a rank list."""
    if listed.kind == "query":
        return _Cell(listed.picture(), caption=((f"query {listed.number}",), listed.labels))
    score = f"{listed.score:.3f}" if abs(listed.score) < 1 else f"{listed.score:.2f}"
    mark = "cross" if listed.kind == "wrong" else "check"
    return _Cell(listed.picture(), mark, ((f"#{listed.rank}", score), listed.labels))


def _draw_rows(
    rows: Sequence[Sequence[_Cell]], headings: Mapping[int, str], height: int, title: str
) -> NDArray[np.uint8]:
    """Draw rows of as many cells each, with pictures of a height in cells of one size.

    Columns with a heading, by the number of the column, are set apart.
    """
    cells: list[_Cell] = []
    for row in rows:
        cells.extend(row)
    num_columns = len(rows[0]) if rows else 0
    letter_size = max(10, round(0.075 * height))
    small = Lettering(letter_size)
    large = Lettering(round(1.3 * letter_size))
    gap = max(4, height // 20)
    frame = max(2, height // 40)
    starts = [column for column in headings if column < num_columns]

    # Captions have room in a cell, which has the proportions of the median picture.
    aspects = [cell.image.width / cell.image.height for cell in cells if cell.image is not None]
    aspect = min(max(median(aspects or [_DEFAULT_ASPECT]), _LEAST_ASPECT), _LARGEST_ASPECT)
    cell_width = max(round(height * aspect), 5 * letter_size) + 2 * frame
    cell_height = height + 2 * frame
    captions = _wrap_captions(cells, small, cell_width)
    *lefts, width = _place_columns(num_columns, starts, cell_width, gap)

    # Title, headings and rows from top to bottom.
    heading_top = gap + (large.height + gap if title else 0)
    top = heading_top + (small.height if rows else 0)
    num_caption_lines = max((len(caption) for caption in captions), default=0)
    row_height = cell_height + num_caption_lines * small.height + 2 * gap
    title = large.cut(title, max(width, _WIDEST_FOR_TITLE) - 2 * gap)
    text_width = max(large.width(title), small.width("" if rows else _NO_ROWS))
    content_height = len(rows) * row_height if rows else small.height + gap
    canvas = Canvas(max(width, text_width + 2 * gap), top + content_height)
    if title:
        canvas.text((gap, gap), title, large)
    if not rows:
        canvas.text((gap, top), _NO_ROWS, small, GRAY)
    for start, end in pairwise([*starts, num_columns]):
        heading = small.cut(headings[start], (end - start) * cell_width)
        canvas.text((lefts[start], heading_top), heading, small, GRAY)
    for number, (cell, caption) in enumerate(zip(cells, captions, strict=True)):
        row_number, column = divmod(number, num_columns)
        box = Box(lefts[column], top + row_number * row_height, cell_width, cell_height)
        _draw_cell(canvas, box, cell, frame)
        canvas.centered(box._replace(top=box.top + box.height), caption, small)
        remark_top = box.top + (box.height - len(cell.remark) * small.height) // 2
        canvas.centered(box._replace(top=remark_top), cell.remark, small, GRAY)
    return np.array(canvas.image)


def _place_columns(num_columns: int, starts: Sequence[int], cell_width: int, gap: int) -> list[int]:
    """Return the left edges of columns, and the end of the last; at one of `starts` there are two more gaps."""
    lefts = [gap]
    for column in range(1, num_columns + 1):
        lefts.append(lefts[-1] + cell_width + gap)
        if column in starts:
            lefts[-1] += 2 * gap
    return lefts


def _wrap_captions(cells: Sequence[_Cell], lettering: Lettering, width: int) -> list[list[str]]:
    """Return the lines below each picture.

    If some cell has no room for a line, the parts of that line are lines of their own in all cells.
    """
    captions: list[list[str]] = [[] for _ in cells]
    for parts_of_cells in zip_longest(*(cell.caption for cell in cells), fillvalue=()):
        lines = [_SPACE.join(parts) for parts in parts_of_cells]
        is_split = any(lettering.is_wider(line, width) for line in lines)
        for caption, line, parts in zip(captions, lines, parts_of_cells, strict=True):
            caption.extend(part for part in (parts if is_split else [line]) if part)
    return captions


def _draw_cell(canvas: Canvas, box: Box, cell: _Cell, frame: int) -> None:
    """Draw the picture of a cell with its frame and mark, or a pale ground."""
    if not cell.remark:
        canvas.fill(box, PALE)
    if cell.image is not None:
        canvas.paste(cell.image, box.inside(frame))
        canvas.frame(box, _FRAME_COLORS[cell.mark], frame)
    if cell.mark:
        size = max(10, (box.height - 2 * frame) // 9)
        corner = (box.left + box.width - frame - size - 1, box.top + frame + 1)
        canvas.mark(corner, size, cell.mark, _FRAME_COLORS[cell.mark])
