"""Ranks of the first right answer
===============================

Where does a model put the first image of the right person?
"""

import torch

from reid_torchmetrics.functional.retrieval import evaluate
from reid_torchmetrics.plot import plot_first_ranks

generator = torch.Generator().manual_seed(0)
identities = torch.arange(50)
centers = torch.randn(50, 16, generator=generator)
queries = centers + torch.randn(50, 16, generator=generator)
gallery = centers + torch.randn(50, 16, generator=generator)
results = evaluate(queries, gallery, identities, identities)
print(results.means)

# %%
# Most queries find it at rank 1.

figure, axes = plot_first_ranks(results)
