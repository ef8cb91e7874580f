"""Draws a person: what an identity keeps from picture to picture (`Appearance`), in a pose that is new every time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from collections.abc import Sequence

Color = tuple[int, int, int]
Point = tuple[float, float]
Item = TypeVar("Item")

SKINS = ((246, 205, 170), (214, 160, 118), (160, 108, 72), (98, 66, 48))
HAIRS = ((24, 20, 20), (74, 46, 28), (150, 104, 54), (128, 128, 130), (196, 166, 100))
# Few and muted: many people must share a color, or color alone would tell them apart.
CLOTHES = (
    *((30, 30, 34), (96, 98, 104), (214, 212, 206), (134, 52, 50)),
    *((172, 152, 92), (60, 96, 66), (46, 62, 104), (98, 132, 166)),
)
VIEWS = ("front", "back", "side")
# What is listed twice is worn twice as often.
TEXTURES = ("plain", "plain", "plain", "rows", "columns", "checks", "logo")
LEGWEAR = ("trousers", "trousers", "shorts", "skirt")
BAGS = ("none", "none", "backpack", "satchel")


@dataclass(frozen=True)
class Appearance:
    """What an identity keeps from camera to camera."""

    skin: Color
    hair: Color
    long_hair: bool
    shirt: Color
    texture: str
    texture_color: Color
    long_sleeves: bool
    legwear: str
    legwear_color: Color
    shoes: Color
    bag: str
    bag_color: Color
    build: float

    @classmethod
    def random(cls, rng: np.random.Generator) -> Appearance:
        """Dress a person."""
        return cls(
            skin=pick_color(SKINS, rng),
            hair=pick_color(HAIRS, rng),
            long_hair=bool(rng.random() < 0.4),
            shirt=pick_color(CLOTHES, rng),
            texture=pick(TEXTURES, rng),
            texture_color=pick_color(CLOTHES, rng),
            long_sleeves=bool(rng.random() < 0.6),
            legwear=pick(LEGWEAR, rng),
            legwear_color=pick_color(CLOTHES, rng),
            shoes=pick_color(CLOTHES, rng),
            bag=pick(BAGS, rng),
            bag_color=pick_color(CLOTHES, rng),
            build=float(rng.uniform(0.85, 1.2)),
        )


@dataclass(frozen=True)
class Framing:
    """Where in the picture a person stands, in pixels from the top left corner, and which side they show."""

    head: Point
    body_height: float
    view: str


def draw_person(image: Image.Image, person: Appearance, framing: Framing, rng: np.random.Generator) -> None:
    """Draw a person in a random pose, what is far from the camera first."""
    brush = _Brush(image, person, framing)
    stride = rng.uniform(0.02, 0.13 if brush.view == "side" else 0.07)
    swing = rng.uniform(-0.12, 0.12)
    if person.bag == "backpack" and brush.view == "side":
        brush.ellipse((0.1, 0.29), (0.09, 0.13), person.bag_color)
    _draw_arm(brush, person, shoulder=-0.11, swing=swing)
    _draw_legs(brush, person, stride)
    _draw_torso(brush, person)
    _draw_arm(brush, person, shoulder=0.0 if brush.view == "side" else 0.11, swing=-swing)
    _draw_head(brush, person)
    _draw_bag(brush, person)


class _Brush:
    """Paints in units of the body: x = 0 is its middle, y = 0 the top of the head, y = 1 the feet."""

    def __init__(self, image: Image.Image, person: Appearance, framing: Framing) -> None:
        self.canvas = ImageDraw.Draw(image)
        self.image = image
        self.view = framing.view
        self.origin = framing.head
        self.height = framing.body_height
        self.width = framing.body_height * person.build * (0.72 if framing.view == "side" else 1.0)

    def pixels(self, points: Sequence[Point]) -> list[Point]:
        return [(self.origin[0] + x * self.width, self.origin[1] + y * self.height) for x, y in points]

    def polygon(self, points: Sequence[Point], color: Color) -> None:
        self.canvas.polygon(self.pixels(points), fill=color)

    def line(self, points: Sequence[Point], thickness: float, color: Color) -> None:
        self.canvas.line(self.pixels(points), fill=color, width=max(1, round(thickness * self.height)))

    def ellipse(self, center: Point, radii: Point, color: Color) -> None:
        (x, y), (radius_x, radius_y) = center, radii
        self.canvas.ellipse(self.pixels([(x - radius_x, y - radius_y), (x + radius_x, y + radius_y)]), fill=color)


def _draw_legs(brush: _Brush, person: Appearance, stride: float) -> None:
    thigh_color = person.skin if person.legwear == "skirt" else person.legwear_color
    calf_color = person.legwear_color if person.legwear == "trousers" else person.skin
    for side in (-1, 1):
        hip, knee, foot = (side * 0.05, 0.48), (side * (0.05 + stride / 2), 0.72), (side * (0.04 + stride), 0.96)
        brush.line([knee, foot], 0.072, calf_color)
        brush.line([hip, knee], 0.085, thigh_color)
        brush.ellipse((foot[0] + 0.01, 0.975), (0.05, 0.025), person.shoes)
    if person.legwear == "skirt":
        hem = 0.12 + stride / 2
        brush.polygon([(-0.09, 0.46), (0.09, 0.46), (hem, 0.7), (-hem, 0.7)], person.legwear_color)


def _draw_arm(brush: _Brush, person: Appearance, *, shoulder: float, swing: float) -> None:
    outwards = 0.04 * float(np.sign(shoulder))
    elbow, hand = (shoulder + outwards + swing / 2, 0.34), (shoulder + outwards + swing, 0.49)
    brush.line([elbow, hand], 0.045, person.shirt if person.long_sleeves else person.skin)
    brush.line([(shoulder, 0.18), elbow], 0.06, person.shirt)
    brush.ellipse(hand, (0.024, 0.024), person.skin)


def _draw_torso(brush: _Brush, person: Appearance) -> None:
    outline = [(-0.125, 0.155), (0.125, 0.155), (0.1, 0.5), (-0.1, 0.5)]
    brush.polygon(outline, person.shirt)
    before = brush.image.copy()
    _draw_texture(brush, person)
    # The texture ran over the edges of the shirt: outside, put back what was there.
    outside = Image.new("1", before.size, 1)
    ImageDraw.Draw(outside).polygon(brush.pixels(outline), fill=0)
    brush.image.paste(before, mask=outside)


def _draw_texture(brush: _Brush, person: Appearance) -> None:
    if person.texture in {"rows", "checks"}:
        for y in np.arange(0.19, 0.5, 0.085).tolist():
            brush.line([(-0.2, y), (0.2, y)], 0.035, person.texture_color)
    if person.texture in {"columns", "checks"}:
        for x in np.arange(-0.16, 0.2, 0.08).tolist():
            brush.line([(x, 0.1), (x, 0.55)], 0.03, person.texture_color)
    if person.texture == "logo" and brush.view != "back":
        brush.ellipse((0.0, 0.27), (0.055, 0.055), person.texture_color)


def _draw_head(brush: _Brush, person: Appearance) -> None:
    brush.line([(0, 0.1), (0, 0.17)], 0.05, person.skin)
    if person.long_hair:
        brush.ellipse((0, 0.1), (0.068, 0.1), person.hair)
    brush.ellipse((0, 0.075), (0.055, 0.072), person.hair)
    if brush.view == "front":
        brush.ellipse((0, 0.09), (0.043, 0.055), person.skin)
    if brush.view == "side":
        brush.ellipse((-0.022, 0.09), (0.034, 0.052), person.skin)


def _draw_bag(brush: _Brush, person: Appearance) -> None:
    if person.bag == "backpack" and brush.view == "back":
        brush.polygon([(-0.09, 0.18), (0.09, 0.18), (0.1, 0.42), (-0.1, 0.42)], person.bag_color)
    if person.bag == "backpack" and brush.view == "front":
        for x in (-0.07, 0.07):
            brush.line([(x, 0.155), (x, 0.36)], 0.025, person.bag_color)
    if person.bag == "satchel":
        side = -1 if brush.view == "back" else 1
        inner, outer = side * 0.05, side * 0.17
        brush.line([(-0.09 * side, 0.16), (0.1 * side, 0.46)], 0.025, person.bag_color)
        brush.polygon([(inner, 0.42), (outer, 0.42), (outer, 0.55), (inner, 0.55)], person.bag_color)


def pick(items: Sequence[Item], rng: np.random.Generator) -> Item:
    """Choose an item."""
    return items[int(rng.integers(len(items)))]


def pick_color(palette: Sequence[Color], rng: np.random.Generator, *, spread: int = 10) -> Color:
    """Choose a color of the palette, or one very like it."""
    offsets = rng.integers(-spread, spread + 1, size=3)
    red, green, blue = (np.asarray(pick(palette, rng)) + offsets).clip(0, 255).tolist()
    return red, green, blue
