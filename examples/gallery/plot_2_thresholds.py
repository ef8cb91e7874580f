"""Choose a threshold
==================

A search always has a first candidate, even for a person that no camera recorded. An
application that must decide between "the same person" and "another person" needs a
threshold on the score. This page looks at all pairs of pictures and chooses one.
"""

import torch

from reid_torchmetrics.functional.retrieval import find_relevance, score_embeddings
from reid_torchmetrics.plot import plot_det, plot_roc, plot_scores
from reid_torchmetrics.tasks import score_histogram, verify

# %%
# All pairs
# ---------
#
# A pair of pictures of one person is genuine, and any other pair is an impostor.
# ``find_relevance`` determines the kind of each pair by the rules of Market-1501: two
# pictures of one person by one camera are left out. Scores are cosines of features. The
# features are synthetic: a part for the person, a part for the camera, and noise.


def scored_pairs(first, last):
    """The scores of all pairs of pictures of some people, and which are genuine."""
    shown = torch.cartesian_prod(
        torch.arange(first, last), torch.arange(4), torch.arange(3)
    )
    identities, cameras, shots = shown.T
    generator = torch.Generator().manual_seed(0)
    people, views = (
        torch.randn(200, 24, generator=generator),
        torch.randn(4, 24, generator=generator),
    )
    noise = torch.randn(len(shown), 24, generator=generator)
    features = people[identities] + 0.5 * views[cameras] + 0.7 * noise
    is_query = shots == 0  # the first picture by each camera
    columns = (identities, cameras, features)
    labels = [column[part] for column in columns for part in (is_query, ~is_query)]
    relevance = find_relevance(*labels[:4])
    return score_embeddings(*labels[4:], relevance), relevance


scores, relevance = scored_pairs(0, 100)
verification = verify(scores, relevance)
print(f"{verification.num_genuine:,} genuine pairs")
print(f"{verification.num_impostors:,} impostors")

# %%
# How scores are spread
# ---------------------
#
# There are 132 times as many impostors as genuine pairs, so the histogram of each kind
# shows shares of that kind, on a logarithmic axis. Genuine pairs score higher, but the
# two histograms overlap: every threshold makes errors. The lines are thresholds that
# accept one impostor in a thousand, and one in a hundred.

histogram = score_histogram(scores, relevance, bins=60)
figure, _ = plot_scores(histogram, verification, far=(0.001, 0.01))

# %%
# Every threshold at once
# -----------------------
#
# The ROC curve shows the share of accepted genuine pairs (TAR) over the share of
# accepted impostors (FAR), for every threshold. The area under it (AUC) is the mean of
# TAR over all FARs from 0 to 100 %. It says little about an application that needs a
# small FAR. The logarithmic axis shows this part of the curve, and there the curve is
# low.

figure, _ = plot_roc(verification)

# %%
# The DET curve shows both errors on logarithmic axes. The point is the equal error
# rate, where both errors are equal.

figure, _ = plot_det(verification)

# %%
# Which threshold?
# ----------------
#
# The choice depends on the number of false alarms that you can tolerate. If a person is
# compared with 1,000 strangers, a FAR of 0.1 % is one false alarm for every person.
# ``tar_at_far`` gives the largest TAR with at most this FAR, and ``threshold_at_far``
# the threshold. Nothing is interpolated: both are counts of pairs.

rates = (0.0001, 0.001, 0.01, 0.1)
thresholds = verification.threshold_at_far(rates)
print("false alarms in 1,000     FAR     TAR   threshold")
tars = verification.tar_at_far(rates)
for far, tar, threshold in zip(rates, tars, thresholds, strict=True):
    print(f"{1000 * far:>21g}  {100 * far:>5g} %  {100 * tar:4.1f} %", end="")
    print(f"      {threshold:.4f}")

equal = verification.equal_error_rate()
print(f"\nequal error rate {100 * equal.rate:.1f} %, at {equal.threshold:.4f}")

# %%
# Does it hold for other people?
# ------------------------------
#
# A threshold is chosen on some people and used on others, so check it on others. Here
# are 100 new people. A histogram with two bins that meet at the threshold counts the
# pairs below and above it. The rates are close to the requested ones, but not equal.
# Report the rates for people that you did not use to choose the threshold.

new_scores, new_relevance = scored_pairs(100, 200)
print("asked for       FAR     TAR")
for far, threshold in zip(rates, thresholds.tolist(), strict=True):
    limits = (threshold - 1, threshold + 1)
    counts = score_histogram(new_scores, new_relevance, bins=2, limits=limits)
    new_far = counts.num_impostors[1] / counts.num_impostors.sum()
    new_tar = counts.num_genuine[1] / counts.num_genuine.sum()
    print(f"{100 * far:>7g} %  {100 * new_far:6.3f} %  {100 * new_tar:4.1f} %")

# %%
# The two curves agree. At the left, where few impostors are counted, the curves of 100
# people differ by chance.

others = verify(new_scores, new_relevance)
figure, _ = plot_roc({"threshold taken here": verification, "other people": others})

# sphinx_gallery_thumbnail_number = 1
