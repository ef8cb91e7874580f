"""What the pages of the gallery measure: a feature of people and a detector of shapes, made by hand and not trained.

It leads to the drawn data sets in `examples/reid` and `examples/detection`, too, from wherever a page is run.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

# Imported here, as the build of the site takes the path back after each block.
import detection
import reid  # noqa: F401
