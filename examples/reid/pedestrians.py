"""A pedestrian data set that needs no download: drawn on the spot, labelled by the rules of Market-1501."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from reid.pedestrian_cameras import CAMERAS, draw_background, draw_obstacle, expose, frame_person
from reid.pedestrian_figure import Appearance, draw_person
from reid.person_dataset import DISTRACTOR, JUNK, PersonDataset, Splits

if TYPE_CHECKING:
    from torch import Tensor

SHOTS_PER_CAMERA = 3


class _Shot(NamedTuple):
    """What to draw: `person` is a number of the person drawn, which distractors and junk do not have as their label."""

    identity: int
    person: int
    camera: int
    number: int


class Pedestrians(PersonDataset):
    """Drawn pictures, all in memory."""

    def __init__(self, shots: list[_Shot], seed: int) -> None:
        """Draw every shot."""
        # Cameras count from 1, as in the names of Market-1501.
        super().__init__([shot.identity for shot in shots], [shot.camera + 1 for shot in shots])
        self.pictures = torch.from_numpy(np.stack([_draw(shot, seed) for shot in shots]))

    def picture(self, index: int) -> Tensor:
        """Give picture number `index`, uint8 [3, height, width]."""
        return self.pictures[index]


def draw_pedestrians(num_train_identities: int, num_test_identities: int, *, seed: int) -> Splits:
    """Draw the data set: every person three times per camera.

    The first shot of a test identity by a camera is a query, the others are the gallery. The gallery also holds, for
    every test identity, two distractors (strangers) and two pieces of junk (strangers cut off by the frame).
    """
    first_stranger = num_train_identities + num_test_identities + 1
    train = _shots(range(1, num_train_identities + 1))
    test = _shots(range(num_train_identities + 1, first_stranger))
    strangers = range(first_stranger, first_stranger + 2 * num_test_identities)
    distractors = [_Shot(DISTRACTOR, person, person % len(CAMERAS), 0) for person in strangers]
    junk = [_Shot(JUNK, person, person % len(CAMERAS), 1) for person in strangers]
    return Splits(
        train=Pedestrians(train, seed),
        query=Pedestrians([shot for shot in test if shot.number == 0], seed),
        gallery=Pedestrians([shot for shot in test if shot.number > 0] + distractors + junk, seed),
    )


def _shots(identities: range) -> list[_Shot]:
    return [
        _Shot(identity, identity, camera, number)
        for identity in identities
        for camera in range(len(CAMERAS))
        for number in range(SHOTS_PER_CAMERA)
    ]


def _draw(shot: _Shot, seed: int) -> np.ndarray:
    # Two generators: a person must not depend on the camera, nor a picture on how many were drawn before it.
    person = Appearance.random(np.random.default_rng([seed, shot.person]))
    rng = np.random.default_rng([seed, shot.person, shot.camera, shot.number])
    camera = CAMERAS[shot.camera]
    image = draw_background(camera, rng)
    draw_person(image, person, frame_person(camera, rng, cut_off=shot.identity == JUNK), rng)
    if rng.random() < 0.3:
        draw_obstacle(image, rng)
    return expose(image, camera, rng)
