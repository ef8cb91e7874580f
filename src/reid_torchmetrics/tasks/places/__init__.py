"""Places: positives within a radius of the query, and groups of gallery items that are ranked in the place of items."""
# mypy: implicit-reexport

from .grouped_gallery import GroupedGallery, Grouping, find_near
