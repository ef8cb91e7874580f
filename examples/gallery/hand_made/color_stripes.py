"""The colors of people from head to feet: what re-identification used before features were learned."""

from __future__ import annotations

import torch
from torch import Tensor

MIDDLE = slice(10, 22)
"""columns of the pictures, which are 32 pixels wide: the person, and little of what is beside"""


def color_stripes(pictures: Tensor, num_stripes: int = 6, num_bins: int = 6) -> Tensor:
    """Histograms of brightness, red-green and blue-yellow in stripes from head to feet, [pictures, features].

    The brightness and the cast of the light are taken out first: every color is divided by its mean in the picture.
    """
    light = pictures.float() / pictures.float().mean((2, 3), keepdim=True).clamp(min=1) / 2
    red, green, blue = light[..., MIDDLE].unbind(1)
    channels = torch.stack([(red + green + blue) / 3, (1 + red - green) / 2, (2 + red + green - 2 * blue) / 4], dim=1)
    stripes = [stripe.flatten(2) for stripe in channels.tensor_split(num_stripes, dim=2)]
    bins = torch.arange(num_bins)
    # A pixel between two bins belongs to both, in part.
    histograms = [
        (1 - (stripe[..., None] * (num_bins - 1) - bins).abs()).clamp(min=0).mean(2).flatten(1) for stripe in stripes
    ]
    return torch.cat(histograms, dim=1).sqrt()  # the cosine of square roots compares histograms (Bhattacharyya)
