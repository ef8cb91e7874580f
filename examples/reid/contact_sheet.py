"""A picture to look a data set over: a row per person, then a row of distractors and a row of junk."""

from __future__ import annotations

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from reid.person_dataset import DISTRACTOR, JUNK, PersonDataset, Splits

NUM_PEOPLE = 8
NUM_COLUMNS = 12
MARGIN = 72


def contact_sheet(splits: Splits) -> Image.Image:
    """Lay out the first people of the training set, each over all their cameras, and what else is in the gallery."""
    people = splits.train.identities.unique()[:NUM_PEOPLE].tolist()
    rows = {f"person {identity}": _row(splits.train, identity) for identity in people}
    rows |= {"distractors": _row(splits.gallery, DISTRACTOR), "junk": _row(splits.gallery, JUNK)}
    pictures = Image.fromarray(torch.cat(list(rows.values()), dim=1).permute(1, 2, 0).numpy())
    enlargement = max(1, round(768 / pictures.width))
    pictures = pictures.resize((pictures.width * enlargement, pictures.height * enlargement), Image.Resampling.NEAREST)
    sheet = Image.new("RGB", (pictures.width + MARGIN, pictures.height), "white")
    sheet.paste(pictures, (MARGIN, 0))
    row_height = pictures.height // len(rows)
    for number, title in enumerate(rows):
        ImageDraw.Draw(sheet).text((4, (number + 0.5) * row_height), title, fill="black", anchor="lm")
    return sheet


def _row(dataset: PersonDataset, identity: int) -> Tensor:
    """Join pictures of `identity` side by side, white where there are too few; uint8 [3, height, columns * width]."""
    own = (dataset.identities == identity).nonzero().flatten().tolist()
    num_shown = min(NUM_COLUMNS, len(own))
    pictures = [dataset.picture(own[column * len(own) // num_shown]) for column in range(num_shown)]
    blank = torch.full_like(dataset.picture(0), 255)
    return torch.cat(pictures + [blank] * (NUM_COLUMNS - num_shown), dim=2)
