"""What the gallery measures: a feature of people and a detector of shapes.

Both are made by hand and not trained. From wherever a page is run, this leads to the
drawn data sets in `examples/reid` and `examples/detection`, too.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

# Imported here, as the build of the site takes the path back after each block.
import detection  # noqa: F401
import reid  # noqa: F401
