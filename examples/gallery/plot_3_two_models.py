"""Is the new model better?
========================

Two models were measured on the same queries, and one has the higher numbers. Would it
have them on other queries, too? ``compare`` answers that with an interval and a p-value
for every number.
"""

import torch
from hand_made.color_stripes import color_stripes

from reid.pedestrians import draw_pedestrians
from reid_torchmetrics import compare
from reid_torchmetrics.functional.retrieval import evaluate
from reid_torchmetrics.plot import draw_rank_lists, plot_cmc, plot_comparison

# %%
# Two models
# ----------
#
# Both are colors in stripes from head to feet, in four stripes and in six. Neither is
# trained.
#
# .. literalinclude:: /../examples/gallery/hand_made/color_stripes.py
#    :pyobject: color_stripes

splits = draw_pedestrians(1, 100, seed=0)
query, gallery = splits.query, splits.gallery
labels = (query.identities, gallery.identities, query.cameras, gallery.cameras)
four, six = (
    evaluate(
        color_stripes(query.pictures, n), color_stripes(gallery.pictures, n), *labels
    )
    for n in (4, 6)
)
figure, _ = plot_cmc({"four stripes": four.cmc[:20], "six stripes": six.cmc[:20]})

# %%
# What may be chance
# ------------------
#
# Six stripes are ahead almost everywhere. The four queries of a person are not
# independent of each other, so whole people are drawn: ``per_identity=True``.

generator = torch.Generator().manual_seed(0)
comparison = compare(four, six, generator=generator, per_identity=True)
print(comparison)

# %%
# A point is the difference in percentage points, the line its 95 % interval. Points are
# filled where p is at most 0.05.

figure, _ = plot_comparison(comparison)

# %%
# How to read it:
#
# - **mAP differs by two points, and that is not chance.** If both models were equally
#   good, a difference as large as this would be seen in fewer than one of a thousand
#   tests.
# - **Rank-1 differs by more, and that may be chance.** A query is right at rank 1 or it
#   is not, so single queries move it a lot; average precision counts all six right
#   answers and varies less. The interval includes 0.
# - **The interval says more than the p-value.** Rank-1 is between a little worse and
#   seven points better. The test set is too small to say more.
#
# The p-value is not the chance that the models are equally good, and it knows nothing
# of what was not varied: another gallery, or another training run with another seed.
# Each number is tested for itself, so of 20 numbers of equal models about one has a
# p-value below 0.05.

of = comparison.differences["rank_1"]
print(f"rank-1: {of.num_better} better, {of.num_worse} worse, {of.num_equal} equal")

# %%
# Which queries changed
# ---------------------
#
# The mean hides that queries went both ways. ``gained`` are those that are right at
# rank 1 only with six stripes. First with four stripes, then with six:


def lists(results, queries, title):
    """The first five candidates of some queries."""
    found = results.nearest(5, queries)
    return draw_rank_lists(found, query, gallery_pictures=gallery, title=title)


gained = comparison.gained[:2]
gained_with_four = lists(four, gained, "four stripes")
gained_with_six = lists(six, gained, "six stripes")

# %%
# ``lost`` are those that are right only with four stripes:

lost = comparison.lost[:2]
lost_with_four = lists(four, lost, "four stripes")
lost_with_six = lists(six, lost, "six stripes")

# sphinx_gallery_thumbnail_number = 2
