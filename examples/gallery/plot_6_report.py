"""All of it on one page
=====================

``write_report`` writes numbers, intervals, conventions, curves, hard queries and
confident mistakes to one HTML page. The page loads nothing, so you can send it as a
single file, or keep it with the weights of a model.
"""

import numpy as np
import torch
from PIL import Image, ImageDraw

from reid_torchmetrics import compare, evaluate, write_report

# %%
# The people are synthetic, as in :doc:`plot_1_pedestrians`.

CLOTHES = [(30, 30, 34), (96, 98, 104), (214, 212, 206), (134, 52, 50)]
CLOTHES += [(172, 152, 92), (60, 96, 66), (46, 62, 104), (98, 132, 166)]
SKINS = [(246, 205, 170), (214, 160, 118), (160, 108, 72), (98, 66, 48)]
HAIRS = [(24, 20, 20), (74, 46, 28), (150, 104, 54), (128, 128, 130)]
WALLS = [(162, 166, 166), (120, 140, 122), (98, 104, 114), (156, 144, 128)]
GROUNDS = [(138, 134, 126), (108, 114, 94), (84, 88, 94), (140, 122, 98)]
LIGHTS = [(1.0, 1.0, 1.0), (0.88, 0.96, 0.86), (0.6, 0.65, 0.75), (1.12, 1.0, 0.84)]


def draw_person(person, camera, shot):
    """A picture, uint8 [3, 64, 32]: clothes of the person, pose of the shot."""
    looks = np.random.default_rng(person)
    shirt, stripes, trousers, shoes = (CLOTHES[n] for n in looks.integers(8, size=4))
    skin, hair = SKINS[looks.integers(4)], HAIRS[looks.integers(4)]
    texture, has_shorts, has_bag = looks.integers(4), *(looks.random(2) < (0.4, 0.3))
    rng = np.random.default_rng([person, camera, shot])
    image = Image.new("RGB", (64, 128), WALLS[camera])
    pen = ImageDraw.Draw(image)
    pen.rectangle([0, rng.integers(80, 96), 64, 128], fill=GROUNDS[camera])
    x, y = int(32 + rng.integers(-6, 7)), int(rng.integers(3, 10))
    for side, step in ((-1, rng.integers(1, 9)), (1, rng.integers(1, 9))):
        hip, knee, foot = (x + 5 * side, y + 58), (x + 6 * side, y + 82), y + 108
        pen.line(
            [knee, (x + (5 + step) * side, foot)], skin if has_shorts else trousers, 8
        )
        pen.line([hip, knee], trousers, 11)
        shoe = x + (6 + step) * side
        pen.ellipse([shoe - 6, foot - 2, shoe + 6, foot + 4], shoes)
        pen.line([(x + 13 * side, y + 24), (x + (13 + step) * side, y + 52)], shirt, 7)
    pen.rounded_rectangle([x - 14, y + 19, x + 14, y + 62], 5, shirt)
    for n in range(4):
        if texture == 1:
            pen.line([(x - 14, y + 26 + 10 * n), (x + 14, y + 26 + 10 * n)], stripes, 4)
        if texture == 2:
            pen.line([(x - 9 + 6 * n, y + 20), (x - 9 + 6 * n, y + 61)], stripes, 3)
    if has_bag:
        pen.line([(x - 11, y + 20), (x + 14, y + 56)], stripes, 3)
        pen.rectangle([x + 9, y + 52, x + 22, y + 68], stripes)
    pen.ellipse([x - 8, y - 1, x + 8, y + 19], hair)
    pen.ellipse([x - 6, y + 4, x + 6, y + 19], skin)
    if rng.random() < 0.3:  # a post or a bin is in front
        left = int(rng.integers(0, 50))
        box = [left, 0, left + 11, 128] if rng.random() < 0.5 else [0, 84, 64, 128]
        pen.rectangle(box, CLOTHES[rng.integers(8)])
    colors = np.asarray(image.reduce(2)) * np.array(LIGHTS[camera])
    colors = colors * rng.uniform(0.7, 1.3) + rng.normal(0, 6, colors.shape)
    return torch.from_numpy(colors.clip(0, 255).astype(np.uint8)).permute(2, 0, 1)


def draw_people(numbers, shots):
    """Pictures of each person by four cameras, with identities and cameras."""
    shown = torch.cartesian_prod(
        torch.tensor(numbers), torch.arange(4), torch.tensor(shots)
    )
    return torch.stack([draw_person(*each) for each in shown.tolist()]), *shown.T[:2]


# %%
# As on the earlier pages, two features are evaluated: colors in stripes.


def color_stripes(pictures, num_stripes=6, num_bins=6):
    """Histograms of colors in stripes from head to feet, [pictures, features]."""
    mean = pictures.float().mean((2, 3), keepdim=True).clamp(min=1)
    red, green, blue = (pictures / mean / 2)[..., 10:22].unbind(1)  # the middle columns
    brightness = (red + green + blue) / 3
    opponents = (1 + red - green) / 2, (2 + red + green - 2 * blue) / 4
    stripes = torch.stack([brightness, *opponents], 1).tensor_split(num_stripes, dim=2)
    bins = torch.arange(num_bins)
    histograms = []
    for stripe in stripes:
        levels = stripe.flatten(2)[..., None] * (num_bins - 1)
        shares = (1 - (levels - bins).abs()).clamp(min=0)  # of the two nearest bins
        histograms.append(shares.mean(2).flatten(1))
    # The cosine of square roots compares histograms (Bhattacharyya).
    return torch.cat(histograms, dim=1).sqrt()


queries, query_identities, query_cameras = draw_people(range(1, 61), [0])
gallery, gallery_identities, gallery_cameras = draw_people(range(1, 61), [1, 2])
labels = query_identities, gallery_identities, query_cameras, gallery_cameras
four, six = (
    evaluate(color_stripes(queries, n), color_stripes(gallery, n), *labels)
    for n in (4, 6)
)

# %%
# All arguments except the results and the path are optional. Without ``pictures`` the
# page has only tables and curves. With ``comparison`` it shows what the newer model
# changed.

models = {"four stripes": four, "six stripes": six}
comparison = compare(models, per_identity=True)
report = write_report(
    six,
    "reid_example_output/report.html",
    title="Colors in six stripes",
    pictures=queries,
    gallery_pictures=gallery,
    comparison=comparison,
    num_hardest=6,
    num_mistakes=4,
)
print(f"{report}, {report.stat().st_size // 1024} KB")

# sphinx_gallery_thumbnail_path = "images/report_thumbnail.png"
