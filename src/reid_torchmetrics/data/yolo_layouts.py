"""Meanings of the numbers in lines of YOLO's files: boxes, polygons, corners of rotated boxes, or keypoints.

The layout is found for all lines of both folders together, as a single line may have several meanings:

    0 .5 .5 .2 .4                    box: center, width and height
    0 .1 .1 .3 .1 .3 .4              polygon: x and y of three corners
    0 .5 .5 .2 .4 .5 .4 2            box, and a keypoint with its visibility
    0 .1 .1 .3 .1 .3 .4 .1 .4        four corners of a rotated box, a polygon, or a box with two keypoints
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import compress
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from .image_sizes import are_shares
from .line_tables import LineTable

NUM_BOX = 4
"""numbers of a box: center, width and height"""
_NUM_CORNERS = 8  # numbers of four corners
_MIN_POLYGON = 6  # numbers of three corners
_MIN_SHARE_INSIDE = 0.9  # of the keypoints that lie in their box
_TOLERANCE = 0.01  # how far keypoints may leave their box, a share of the image
_SLANT = 0.05  # difference of opposite edges, and from the axes, as a share of the extent: corners are often pixels
_MANY_LINES = 10  # lines of one length that are hardly polygons if all fit boxes with keypoints
_SEVERAL_KEYPOINTS = 3  # fewer keypoints of two numbers are as long as triangles and four corners
_MIN_TRACK = 2  # a coordinate may be 1, so ids of polygons are told from coordinates by one that is larger

Kind = Literal["polygons", "corners", "pose"]
Tables: TypeAlias = tuple[LineTable, LineTable]
"""the lines of ground truths, and those of detections"""


@dataclass(frozen=True)
class Layout:
    """A meaning of the numbers of the shape in a line."""

    kind: Kind
    description: str
    """words for messages"""
    may_be_box: bool = False
    """whether a box may stand in place of the shape"""
    num_keypoints: int = 0
    widths: tuple[int, int] = (0, 0)
    """numbers of a keypoint in a ground truth and in a detection, 2 or 3"""

    def allows(self, size: int, lines: LineTable) -> bool:
        """Return whether a shape in some lines may have `size` numbers."""
        if size == NUM_BOX and self.may_be_box:
            return True
        if self.kind == "polygons":
            return size >= _MIN_POLYGON and size % 2 == 0
        if self.kind == "corners":
            return size == _NUM_CORNERS
        return self.num_keypoints > 0 and size == NUM_BOX + self.num_keypoints * self.width(lines)

    def width(self, lines: LineTable) -> int:
        """Return the number of values of a keypoint in some lines."""
        return self.widths[lines.are_results]


BOXES = Layout(kind="polygons", description="a box or polygon", may_be_box=True)
POLYGONS = Layout(kind="polygons", description="a polygon")
CORNERS = Layout(kind="corners", description="x and y of four corners")
KEYPOINTS = Layout(kind="pose", description="a box and keypoints of 2 or 3 numbers, as many in each line,")


def sizes_by_length(lines: LineTable, layout: Layout) -> dict[int, int | None]:
    """Return the number of values of the shape by the length of a line; None if lines of a length do not fit.

    In results a confidence follows, and perhaps a tracking id: a whole number in all lines that are one number longer.
    """
    num_further = [0]
    if lines.are_results:
        num_further = [1, 2] if _have_ids(lines, layout) else [1]
    by_length: dict[int, int | None] = {}
    for length in lines.distinct_lengths:
        sizes = [length - number for number in num_further if layout.allows(length - number, lines)]
        by_length[length] = sizes[0] if sizes else None
    return by_length


def fits(tables: Tables, layout: Layout) -> bool:
    """Return whether all lines fit a layout."""
    return all(None not in sizes_by_length(lines, layout).values() for lines in tables)


def find_layout(tables: Tables, iou_type: str | None) -> Layout | None:
    """Return the layout of all lines; None if some line does not fit.

    Raises:
        ValueError: The lines may be of several kinds, and `iou_type`, None for any kind, does not tell which.
    """
    if not any(map(len, tables)):
        return KEYPOINTS if iou_type == "keypoints" else BOXES
    if iou_type == "keypoints":
        return find_pose(tables, needs_box=False)
    if iou_type in ("segm", "rotated"):
        layout = POLYGONS if iou_type == "segm" else CORNERS
        return layout if fits(tables, layout) else None
    pose = find_pose(tables, needs_box=True)
    if not fits(tables, BOXES):
        return pose
    return _find_layout_of_polygons(tables, pose, iou_type)


def _find_layout_of_polygons(tables: Tables, pose: Layout | None, iou_type: str | None) -> Layout:
    """Return the layout of lines that may all be boxes or polygons, and keypoints if there is a `pose`.

    Raises:
        ValueError: The lines may be of several kinds, and `iou_type` does not tell which.
    """
    may_be_corners = fits(tables, CORNERS)
    if may_be_corners and _are_rotated(tables):
        return CORNERS if iou_type is None else BOXES
    if pose is not None and _is_surely_pose(tables, pose):
        return pose
    if pose is not None or (may_be_corners and iou_type is None):
        raise _several_meanings(tables, pose, iou_type)
    return BOXES


def find_pose(tables: Tables, *, needs_box: bool) -> Layout | None:
    """Return the layout of boxes with keypoints; None if lines do not fit.

    Args:
        tables: The lines.
        needs_box: Whether the keypoints must lie in their boxes, which tells them from polygons; lines with a box
            alone are allowed then.
    """
    candidates = _pose_candidates(tables, may_be_box=needs_box)
    poses = [layout for layout in candidates if fits(tables, layout)]
    for layout in poses:
        if _are_in_boxes(tables, layout):
            return layout
    if needs_box or not poses:
        return None
    lines = _lines_of_pose(tables)
    for layout in poses:
        if _have_visibilities(lines, layout):
            return layout
    return poses[0]


def usual_layout(tables: Tables, iou_type: str | None) -> Layout:
    """Return the layout that most lines have, to name the first line of another."""
    if iou_type in ("segm", "rotated"):
        return POLYGONS if iou_type == "segm" else CORNERS
    labels, results = (_lines_of_length(lines, _usual_length(lines)) for lines in tables)
    needs_box = iou_type != "keypoints"
    for further_lines in (results, _lines_of_length(results, -1)):
        pose = find_pose((labels, further_lines), needs_box=needs_box)
        if pose is not None:
            return pose
    return BOXES if needs_box else KEYPOINTS


def first_fault(tables: Tables, layout: Layout) -> ValueError:
    """Return the error for the first line that does not fit a layout: its rule, the line and its numbers."""
    for lines in tables:
        sizes = sizes_by_length(lines, layout)
        for position, length in enumerate(lines.lengths.tolist()):
            if sizes[length] is None:
                return _line_fault(lines, position, length, layout)
    return ValueError("`labels` and `results` must have lines of one kind; got several.")


def _line_fault(lines: LineTable, position: int, size: int, layout: Layout) -> ValueError:
    """Return the error for a line with too many or too few numbers, with what may be the reason."""
    rule = f"a class, {layout.description}"
    hint = ""
    if lines.are_results:
        rule += " and a confidence"
        if layout.allows(size, lines):
            hint += "; Ultralytics writes confidences with `save_conf=True`"
        if layout.allows(size - 2, lines):
            hint += "; a tracking id may follow the confidence if it is a whole number in all such lines"
    num_behind_box = size - lines.are_results - NUM_BOX
    if layout is BOXES and num_behind_box > 0 and num_behind_box % 3 == 0:
        hint += "; iou_type='keypoints' reads boxes and keypoints, also those that do not lie in their boxes"
    got = f"{_line(lines, position)} with {size} numbers behind the class{hint}"
    return ValueError(f"`{lines.argument}` must have {rule} in a line; got {got}.")


def _line(lines: LineTable, position: int) -> str:
    """Return the text of a line and its place, for a message."""
    _, text, where = lines.find_line(position)
    return f"{text!r}, {where}"


def _have_ids(results: LineTable, layout: Layout) -> bool:
    """Return whether all lines that are too long for a shape and a confidence end with a tracking id."""
    too_long = [length for length in results.distinct_lengths if not layout.allows(length - 1, results)]
    lengths = [length for length in too_long if layout.allows(length - 2, results)]
    is_long = np.isin(results.lengths, lengths)
    ends_whole = all(word.isdecimal() for word in compress(results.last_words, is_long.tolist()))  # 7, but not 7.0
    if not is_long.any() or not ends_whole:
        return False
    last_numbers = results.numbers[(results.starts + results.lengths)[is_long] - 1]
    return NUM_BOX + 2 in lengths or bool((last_numbers >= _MIN_TRACK).any())


def _is_surely_pose(tables: Tables, pose: Layout) -> bool:
    """Return whether lines that fit boxes with keypoints are no polygons.

    Ground truths have visibilities or keypoints at 0 0, which polygons hardly have, or there are many lines: polygons
    are not all of one length whose first two corners are a box around the others.
    """
    lines = _lines_of_pose(tables)
    if not lines.are_results and pose.width(lines) == 3:
        return True
    keypoints = keypoints_of(lines, pose)
    if len(keypoints) >= _MANY_LINES:
        return True
    if pose.num_keypoints < _SEVERAL_KEYPOINTS:
        return False
    return bool((keypoints[..., :2] == 0).all(axis=-1).any())


def _several_meanings(tables: Tables, pose: Layout | None, iou_type: str | None) -> ValueError:
    """Return the error for lines that may be several things, with the kinds that they may have."""
    labels, results = tables
    candidates = []
    if pose is not None:
        candidates.append("'keypoints' for a box and keypoints")
    if fits(tables, CORNERS):
        candidates.append("'rotated' for four corners of rotated boxes")
    candidates.append("'segm' for polygons")
    if pose is None:
        candidates.append("'bbox' for the boxes around them")
    names = f"{', '.join(candidates[:-1])} or {candidates[-1]}"
    rule = "must be given" if iou_type is None else "must be another one"
    line = _line(results, 0) if len(results) else ""
    is_shape = labels.lengths > NUM_BOX
    if is_shape.any():
        line = _line(labels, int(is_shape.argmax()))
    return ValueError(f"`iou_type` {rule} where lines may be several things: {names}; got {iou_type!r} for {line}.")


def _are_rotated(tables: Tables) -> bool:
    """Return whether four corners are parallelograms, as rotated boxes are in shares, and one is not along the axes."""
    numbers = np.concatenate([lines.columns(0, _NUM_CORNERS) for lines in tables])
    corners = numbers.reshape(-1, 4, 2)
    tolerance = _SLANT * (corners.max(axis=1) - corners.min(axis=1)).max(axis=1)
    first, second, third, fourth = corners.transpose(1, 0, 2)
    if (np.abs(first - second + third - fourth).max(axis=1) > tolerance).any():
        return False
    first_slant = np.abs(first - second).min(axis=1)
    second_slant = np.abs(second - third).min(axis=1)
    return bool((np.maximum(first_slant, second_slant) > tolerance).any())


def _pose_candidates(tables: Tables, *, may_be_box: bool) -> list[Layout]:
    """Return the layouts of boxes with keypoints that may fit, with keypoints of three numbers before those of two."""
    labels, results = tables
    boxes_alone = {NUM_BOX} if may_be_box else set()
    sizes = labels.distinct_lengths - boxes_alone
    is_result = not sizes
    if is_result:
        sizes = {length - 1 for length in results.distinct_lengths} - boxes_alone
        if len(sizes) == 2 and max(sizes) - min(sizes) == 1:  # with tracking ids in some lines
            sizes = {min(sizes)}
    if len(sizes) != 1:
        return []
    (size,) = sizes
    candidates = []
    for width in (3, 2):
        num_keypoints, rest = divmod(size - NUM_BOX, width)
        if num_keypoints < 1 or rest:
            continue
        pose = Layout(
            kind="pose",
            description=f"a box and {num_keypoints} keypoints",
            may_be_box=may_be_box,
            num_keypoints=num_keypoints,
            widths=(width, width),
        )
        other_width = 2 if width == 3 else 3
        candidates.append(pose)
        candidates.append(replace(pose, widths=(other_width, width) if is_result else (width, other_width)))
    return candidates


def _are_in_boxes(tables: Tables, layout: Layout) -> bool:
    """Return whether lines begin with a box in the image that holds the keypoints that follow; few may leave it."""
    lines = _lines_of_pose(tables)
    boxes = lines.columns(0, NUM_BOX)
    edges = edges_of_boxes(boxes)
    if (boxes[:, 2:] <= 0).any() or not are_shares(edges).all():
        return False
    if not _have_visibilities(lines, layout):
        return False
    points = keypoints_of(lines, layout)[..., :2]
    edges = edges[_have_keypoints(lines), None]
    is_inside = ((points >= edges[..., :2] - _TOLERANCE) & (points <= edges[..., 2:] + _TOLERANCE)).all(axis=-1)
    is_labeled = (points != 0).any(axis=-1)
    return bool((is_inside & is_labeled).sum() >= _MIN_SHARE_INSIDE * is_labeled.sum())


def edges_of_boxes(boxes: Float[NDArray[np.float64], "boxes 4"]) -> Float[NDArray[np.float64], "boxes 4"]:
    """Return left, top, right and bottom of boxes, given their center, width and height."""
    centers = boxes[:, :2]
    halves = boxes[:, 2:] / 2
    return np.concatenate([centers - halves, centers + halves], axis=1)


def _lines_of_pose(tables: Tables) -> LineTable:
    """Return the lines that show whether shapes have keypoints: ground truths, or detections beside boxes alone."""
    labels, results = tables
    return results if labels.distinct_lengths <= {NUM_BOX} else labels


def _have_keypoints(lines: LineTable) -> Bool[NDArray[np.bool_], " lines"]:
    """Return which lines are no box alone; a confidence and a tracking id may follow a detected box."""
    has_keypoints: NDArray[np.bool_] = lines.lengths > NUM_BOX + 2 * lines.are_results
    return has_keypoints


def keypoints_of(lines: LineTable, layout: Layout) -> Float[NDArray[np.float64], "shapes keypoints width"]:
    """Return the numbers of the keypoints of each line that is no box alone."""
    width = layout.width(lines)
    numbers = lines.columns(NUM_BOX, layout.num_keypoints * width, _have_keypoints(lines))
    return numbers.reshape(len(numbers), layout.num_keypoints, width)


def _have_visibilities(lines: LineTable, layout: Layout) -> bool:
    """Return whether keypoints have visibilities of ground truths, or confidences of detected keypoints, if any."""
    if layout.width(lines) == 2:
        return True
    numbers = keypoints_of(lines, layout)[..., 2]
    are_visibilities = np.isin(numbers, (0, 1, 2)).all(axis=1)
    are_confidences = are_shares(numbers).all(axis=1) & lines.are_results
    return bool((are_visibilities | are_confidences).all())


def _usual_length(lines: LineTable) -> int:
    """Return the most common number of numbers in a line; 0 without lines."""
    lengths = Counter(lines.lengths.tolist()).most_common(1)
    return int(lengths[0][0]) if lengths else 0


def _lines_of_length(lines: LineTable, length: int) -> LineTable:
    """Return the lines with a length, which are no longer lines of files."""
    is_selected = lines.lengths == length
    return replace(
        lines,
        files={},
        words=lines.words[is_selected],
        last_words=list(compress(lines.last_words, is_selected.tolist())),
        lengths=lines.lengths[is_selected],
        numbers=lines.numbers[np.repeat(is_selected, lines.lengths)],
    )
