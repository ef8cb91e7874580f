"""The colors of people: what re-identification used before features were learned."""

from __future__ import annotations

import torch
from torch import Tensor

MIDDLE = slice(10, 22)
"""columns of the pictures, which are 32 wide: the person, and little beside"""


def color_stripes(pictures: Tensor, num_stripes: int = 6, num_bins: int = 6) -> Tensor:
    """Histograms of colors in stripes from head to feet, [pictures, features].

    Colors are brightness, red against green, and blue against yellow. The light is
    taken out first: every color is divided by its mean in the picture.
    """
    mean = pictures.float().mean((2, 3), keepdim=True).clamp(min=1)
    red, green, blue = (pictures / mean / 2)[..., MIDDLE].unbind(1)
    colors = (
        (red + green + blue) / 3,
        (1 + red - green) / 2,
        (2 + red + green - 2 * blue) / 4,
    )
    stripes = torch.stack(colors, dim=1).tensor_split(num_stripes, dim=2)
    bins = torch.arange(num_bins)
    histograms = []
    for stripe in stripes:
        levels = stripe.flatten(2)[..., None] * (num_bins - 1)
        shares = (1 - (levels - bins).abs()).clamp(min=0)  # of the two nearest bins
        histograms.append(shares.mean(2).flatten(1))
    # The cosine of square roots compares histograms (Bhattacharyya).
    return torch.cat(histograms, dim=1).sqrt()
