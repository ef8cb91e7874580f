"""Further evaluations, built on the public names of `functional` and `metrics`, which know nothing of them."""

from .embedding_quality import EmbeddingQuality as EmbeddingQuality
