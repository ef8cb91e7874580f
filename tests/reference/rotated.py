"""Areas of rotated boxes, by clipping polygons: nothing here may come from the package."""

import math
from collections.abc import Sequence
from fractions import Fraction

Polygon = list[tuple[float, float]]


def corners(box: Sequence[float]) -> Polygon:
    """Of center, width, height, angle: turned from the x axis to the y axis."""
    x, y, width, height, angle = box
    turned = []
    for along, across in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
        u, v = along * width / 2, across * height / 2
        turned.append((x + u * math.cos(angle) - v * math.sin(angle), y + u * math.sin(angle) + v * math.cos(angle)))
    return turned


def area(polygon: Polygon) -> float:
    pairs = zip(polygon, polygon[1:] + polygon[:1], strict=True)
    return sum(x * other_y - other_x * y for (x, y), (other_x, other_y) in pairs) / 2


def clipped(polygon: Polygon, start: tuple[float, float], end: tuple[float, float]) -> Polygon:
    """What of a polygon is on the inner side of a line."""

    def side(point: tuple[float, float]) -> float:
        return (end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (point[0] - start[0])

    kept: Polygon = []
    for point, following in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        here, there = side(point), side(following)
        if here >= 0:
            kept.append(point)
        if here * there < 0:
            share = here / (here - there)
            kept.append((point[0] + share * (following[0] - point[0]), point[1] + share * (following[1] - point[1])))
    return kept


def rotated_iou(box: Sequence[float], other: Sequence[float], *, is_crowd: bool = False) -> float:
    """Intersection over union; where `other` is a crowd, over the area of `box` alone."""
    if min(*box[2:4], *other[2:4]) == 0:
        return 0.0
    polygon, edges = corners(box), corners(other)
    for start, end in zip(edges, edges[1:] + edges[:1], strict=True):
        polygon = clipped(polygon, start, end) if polygon else []
    common = area(polygon) if polygon else 0.0
    union = box[2] * box[3] if is_crowd else box[2] * box[3] + other[2] * other[3] - common
    return common / union if common > 0 else 0.0


def polygon_iou(polygon: Polygon, other: Polygon) -> float:
    """Of polygons with any angles: the sum over triangles of the origin and an edge, each with its sign."""

    def triangles(corners: Polygon) -> list[tuple[int, Polygon]]:
        corners = corners if area(corners) >= 0 else corners[::-1]
        edges = zip(corners, corners[1:] + corners[:1], strict=True)
        signed = [[(0.0, 0.0), start, end] for start, end in edges]
        return [(1, each) if area(each) >= 0 else (-1, each[::-1]) for each in signed]

    def common(triangle: Polygon, edges: Polygon) -> float:
        for start, end in zip(edges, edges[1:] + edges[:1], strict=True):
            triangle = clipped(triangle, start, end) if triangle else []
        return area(triangle) if triangle else 0.0

    pairs = [(first, second) for first in triangles(polygon) for second in triangles(other)]
    total = sum(sign * other_sign * common(each, edges) for (sign, each), (other_sign, edges) in pairs if area(edges))
    return total / (abs(area(polygon)) + abs(area(other)) - total) if total > 0 else 0.0


def edges_cross(polygon: Sequence[tuple[int, int]]) -> bool:
    """Whether two edges of a polygon meet in a point that is an end of neither, in exact arithmetic."""
    edges = list(zip(polygon, [*polygon[1:], polygon[0]], strict=True))
    for place, (start, end) in enumerate(edges):
        for other_start, other_end in edges[place + 1 :]:
            x, y = end[0] - start[0], end[1] - start[1]
            other_x, other_y = other_end[0] - other_start[0], other_end[1] - other_start[1]
            determinant = x * other_y - y * other_x
            if determinant == 0:  # parallel
                continue
            # start + share * (x, y) = other_start + other_share * (other_x, other_y)
            away_x, away_y = other_start[0] - start[0], other_start[1] - start[1]
            share = Fraction(away_x * other_y - away_y * other_x, determinant)
            other_share = Fraction(away_x * y - away_y * x, determinant)
            if 0 < share < 1 and 0 < other_share < 1:
                return True
    return False
