"""What the place of a camera does to its pictures: background, framing, obstacles, light, color and noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from reid.pedestrian_figure import CLOTHES, VIEWS, Color, Framing, pick, pick_color

WIDTH, HEIGHT = 32, 64
OVERSAMPLING = 2  # Pillow draws with hard edges: draw twice as large, then average.
CANVAS = (WIDTH * OVERSAMPLING, HEIGHT * OVERSAMPLING)


@dataclass(frozen=True)
class Camera:
    """A place, its light and the device there; `views` are the sides that people show when they pass."""

    wall: Color
    ground: Color
    pattern: str
    views: tuple[str, ...]
    scale: float
    gain: float
    gamma: float
    cast: tuple[float, float, float]
    blur: float
    noise: float


CAMERAS = (
    Camera(
        wall=(162, 166, 166),
        ground=(138, 134, 126),
        pattern="bricks",
        views=("front", "front", "side"),
        scale=1.0,
        gain=1.02,
        gamma=1.0,
        cast=(1.0, 1.0, 1.0),
        blur=0.3,
        noise=4,
    ),
    Camera(
        wall=(120, 140, 122),
        ground=(108, 114, 94),
        pattern="hedge",
        views=("back", "back", "side"),
        scale=0.92,
        gain=0.92,
        gamma=0.95,
        cast=(0.96, 1.04, 0.94),
        blur=0.5,
        noise=6,
    ),
    Camera(
        wall=(98, 104, 114),
        ground=(106, 108, 110),
        pattern="panels",
        views=VIEWS,
        scale=1.05,
        gain=0.8,
        gamma=1.15,
        cast=(0.9, 0.97, 1.12),
        blur=0.7,
        noise=9,
    ),
    Camera(
        wall=(156, 144, 128),
        ground=(148, 132, 112),
        pattern="plain",
        views=VIEWS,
        scale=0.86,
        gain=1.08,
        gamma=0.9,
        cast=(1.1, 1.0, 0.87),
        blur=0.4,
        noise=6,
    ),
)


def frame_person(camera: Camera, rng: np.random.Generator, *, cut_off: bool) -> Framing:
    """Choose where somebody stands; `cut_off`: mostly outside the picture, as in a failed detection."""
    width, height = CANVAS
    body_height = height * 0.86 * camera.scale * rng.uniform(0.92, 1.08)
    x = width * (0.5 + rng.uniform(-0.1, 0.1))
    y = (height - body_height) * rng.uniform(0.3, 0.7)
    if cut_off:
        x += width * rng.choice((-0.5, 0.5))
        y += height * rng.choice((-0.5, 0.0, 0.5))
    return Framing((x, y), body_height, pick(camera.views, rng))


def draw_background(camera: Camera, rng: np.random.Generator) -> Image.Image:
    """Draw what stands behind the people; every shot sees another stretch of it."""
    image = Image.new("RGB", CANVAS, pick_color([camera.wall], rng))
    draw, (width, height) = ImageDraw.Draw(image), CANVAS
    if camera.pattern == "bricks":
        for y in range(int(rng.integers(10)), height, 10):
            draw.line([0, y, width, y], fill=camera.ground, width=2)
    if camera.pattern == "panels":
        for x in range(-int(rng.integers(24)), width, 24):
            draw.rectangle([x, 0, x + 11, height], fill=camera.ground)
    if camera.pattern == "hedge":
        for x, y in rng.integers(-6, CANVAS, size=(40, 2)).tolist():
            draw.ellipse([x, y, x + 10, y + 8], fill=pick_color([camera.wall], rng, spread=22))
    horizon = height * rng.uniform(0.62, 0.8)
    draw.rectangle([0, horizon, width, height], fill=pick_color([camera.ground], rng))
    return image


def draw_obstacle(image: Image.Image, rng: np.random.Generator) -> None:
    """Hide a part of the person: a bin in front of the legs, or a post."""
    width, height = image.size
    left, right, top = 0.0, float(width), height * rng.uniform(0.62, 0.8)
    if rng.random() < 0.5:
        left, top = width * rng.uniform(0.0, 0.75), 0.0
        right = left + width * rng.uniform(0.12, 0.25)
    ImageDraw.Draw(image).rectangle([left, top, right, height], fill=pick_color(CLOTHES, rng))


def expose(image: Image.Image, camera: Camera, rng: np.random.Generator) -> np.ndarray:
    """Take the picture: blur, illumination, gamma, color cast and sensor noise; uint8 [3, HEIGHT, WIDTH]."""
    blurred = image.reduce(OVERSAMPLING).filter(ImageFilter.GaussianBlur(camera.blur))
    light = np.asarray(blurred, dtype=np.float32) / 255
    # The light falls from one side, and it is not the same all day.
    light *= np.linspace(0.85, 1.15, WIDTH, dtype=np.float32)[None, :: rng.choice((-1, 1)), None]
    light *= camera.gain * rng.uniform(0.7, 1.3)
    recorded = light**camera.gamma * np.asarray(camera.cast) * 255 + rng.normal(0, camera.noise, light.shape)
    return recorded.clip(0, 255).astype(np.uint8).transpose(2, 0, 1)
