"""Find people, and see where it fails
===================================

A camera saw somebody. Where did the other cameras see the same person? This page
measures how well a simple feature answers that, and then looks at the answers that are
wrong.
"""

import torch
from hand_made.color_stripes import color_stripes

from reid.contact_sheet import contact_sheet
from reid.pedestrians import draw_pedestrians
from reid_torchmetrics.functional.retrieval import evaluate
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
# People are drawn, by four cameras that differ in their light, their background and the
# side that people show. Every camera takes three pictures of everybody. The first is a
# query; the other two are in the gallery. So are strangers, who are nobody's answer
# (distractors), and pieces of people that a detector cut off (junk, which counts for
# nothing).

splits = draw_pedestrians(4, 100, seed=0)
print(f"{len(splits.query)} queries, {len(splits.gallery)} pictures in the gallery")
people = contact_sheet(splits)

# %%
# A feature without training
# --------------------------
#
# Before features were learned they were made by hand. This one has the colors of a
# person in six stripes from head to feet, which tell a blue shirt over red trousers
# from a red shirt over blue trousers. The light of the camera is taken out by dividing
# by the mean color of the picture.
#
# .. literalinclude:: /../examples/gallery/hand_made/color_stripes.py
#    :pyobject: color_stripes
#
# ``evaluate`` ranks the gallery for every query and computes what papers report. By
# default that is done as for Market-1501: what the query's own camera saw of the person
# is left out.

query, gallery = splits.query, splits.gallery
labels = (query.identities, gallery.identities, query.cameras, gallery.cameras)
results = evaluate(
    color_stripes(query.pictures), color_stripes(gallery.pictures), *labels
)
print(results)

# %%
# How sure are these numbers? There are 100 people, with four queries each. With another
# 100 people the mean average precision could as well be somewhere in this interval.

generator = torch.Generator().manual_seed(0)
interval = results.interval("map", generator=generator, per_identity=True)
print(f"mAP {100 * results.means['map']:.1f} %,", end=" ")
print(f"between {100 * interval.low:.1f} and {100 * interval.high:.1f} %")

# %%
# How far one has to look
# -----------------------
#
# The CMC says for how many queries there is a right answer among the first 1, 2, 3, ...
# candidates. The lower curve is that of the same colors in one stripe, which is the
# whole person.

one_stripe = evaluate(
    color_stripes(query.pictures, 1), color_stripes(gallery.pictures, 1), *labels
)
figure, _ = plot_cmc({"six stripes": results.cmc, "one stripe": one_stripe.cmc})

# %%
# The same in another way: where is the first right answer? Most of those that are not
# at rank 1 are among the first ten.

figure, _ = plot_first_ranks({"six stripes": results, "one stripe": one_stripe})

# %%
# The CMC is about the first right answer, average precision about all six. At a recall
# of 50 %, three of the six are found.

named = {"six stripes": results, "one stripe": one_stripe}
figure, _ = plot_retrieval_precision_recall(named)

# %%
# The hardest queries
# -------------------
#
# A mean does not say what goes wrong. Here are the queries with the lowest average
# precision, each with its first five candidates, and at the right the first right
# answer with its rank. Posts and bins in front of people are the reason most of the
# time: the feature takes their color for that of clothes.

hardest = results.nearest(5, results.hardest(3))
hardest_queries = draw_rank_lists(hardest, query, gallery_pictures=gallery)

# %%
# Confident mistakes
# ------------------
#
# These queries have a wrong answer far ahead of the first right one. In your data, look
# at them first: this is where wrong labels come to light. Here all labels are right.
# The feature found the bin again, not the person.

mistakes = results.nearest(5, results.confident_mistakes(3))
confident_mistakes = draw_rank_lists(mistakes, query, gallery_pictures=gallery)

# %%
# From camera to camera
# ---------------------
#
# Queries of each camera (rows) are searched in each gallery camera alone (columns). The
# worst pair is that of camera 4, whose light is warm, and camera 3, which is dark and
# blue. The other way round it goes better: the two numbers of a pair of cameras need
# not be the same.

pairs = results.by_camera_pair("rank_1")
figure, _ = plot_camera_pairs(pairs, name="rank-1")

# sphinx_gallery_thumbnail_number = 5
