"""Find people, and see where it fails
===================================

A camera recorded a person. Where did the other cameras record the same person? This
page measures how well a simple feature answers this question, and then shows the wrong
answers.
"""

import numpy as np
import torch
from PIL import Image, ImageDraw

from reid_torchmetrics import evaluate
from reid_torchmetrics.plot import (
    draw_rank_lists,
    plot_camera_pairs,
    plot_cmc,
    plot_first_ranks,
    plot_retrieval_precision_recall,
)

# %%
# The people
# ----------
#
# The people are synthetic. Four cameras differ in their light and in their background.
# Sometimes a post or a bin is in front of a person. You can skip this code: it only
# makes the images.

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
# Every camera takes three pictures of each person. The first one is a query, and the
# other two are in the gallery. The gallery also contains strangers that match no query.
# They are distractors, with identity 0.

queries, query_identities, query_cameras = draw_people(range(1, 101), [0])
gallery, numbers, gallery_cameras = draw_people(range(1, 151), [1, 2])
gallery_identities = numbers.where(numbers <= 100, 0)
print(f"{len(queries)} queries, {len(gallery)} pictures in the gallery")
rows = gallery[:48].unflatten(0, (6, 8)).permute(0, 3, 1, 4, 2)  # a person a row
people = Image.fromarray(rows.flatten(2, 3).flatten(0, 1).numpy()).resize((512, 768))

# %%
# A feature without training
# --------------------------
#
# Before features were learned, they were designed by hand. This feature consists of the
# colors of a person in six stripes from head to feet. It distinguishes a blue shirt
# over red trousers from a red shirt over blue trousers. Dividing by the mean color of
# the picture removes the light of the camera.


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


# %%
# ``evaluate`` ranks the gallery for every query and computes the numbers that papers
# report. The default is the protocol of Market-1501: pictures of the person from the
# query's own camera are left out.

labels = query_identities, gallery_identities, query_cameras, gallery_cameras
results = evaluate(color_stripes(queries), color_stripes(gallery), *labels)
print(results)

# %%
# How certain are these numbers? There are 100 people, with four queries each. With
# another 100 people the mean average precision could be anywhere in this interval.

generator = torch.Generator().manual_seed(0)
interval = results.interval("map", generator=generator, per_identity=True)
print(f"mAP {100 * results.means['map']:.1f} %,", end=" ")
print(f"between {100 * interval.low:.1f} and {100 * interval.high:.1f} %")

# %%
# How far you have to look
# ------------------------
#
# The CMC is the share of queries with a correct answer among the first 1, 2, 3, ...
# candidates. The lower curve uses the same colors in a single stripe, the whole person.

one_stripe = evaluate(color_stripes(queries, 1), color_stripes(gallery, 1), *labels)
figure, _ = plot_cmc({"six stripes": results.cmc, "one stripe": one_stripe.cmc})

# %%
# Another view of the same ranks: where is the first correct answer? Most first answers
# that are not at rank 1 are among the first ten.

figure, _ = plot_first_ranks({"six stripes": results, "one stripe": one_stripe})

# %%
# The CMC depends on the first correct answer, and average precision on all six. At a
# recall of 50 %, three of the six are found.

named = {"six stripes": results, "one stripe": one_stripe}
figure, _ = plot_retrieval_precision_recall(named)

# %%
# The hardest queries
# -------------------
#
# A mean does not show what goes wrong. These are the queries with the lowest average
# precision, each with its first five candidates, and on the right the first correct
# answer with its rank. In most cases the reason is a post or a bin in front of the
# person: the feature confuses its color with the color of clothes.

hardest = results.nearest(5, results.hardest(3))
hardest_queries = draw_rank_lists(hardest, queries, gallery_pictures=gallery)

# %%
# Confident mistakes
# ------------------
#
# These queries have a wrong answer far ahead of the first correct one. In your own
# data, look at these queries first, because they reveal wrong labels. Here all labels
# are correct. The feature found the bin again, not the person.

mistakes = results.nearest(5, results.confident_mistakes(3))
confident_mistakes = draw_rank_lists(mistakes, queries, gallery_pictures=gallery)

# %%
# From camera to camera
# ---------------------
#
# The queries of each camera (rows) are searched in the gallery of each single camera
# (columns). The worst pair is camera 0, which is bright, and camera 2, which is dark
# and blue. The opposite direction is better: the two numbers of a pair of cameras need
# not be equal.

pairs = results.by_camera_pair("rank_1")
figure, _ = plot_camera_pairs(pairs, name="Rank-1")

# sphinx_gallery_thumbnail_number = 5
