#!/usr/bin/env bash
# utm 0.9.0: of an array of places the first one chooses the zone for all, so that two arrays of one town do not meet.
#
# One expects: eastings and northings in meters of queries and gallery, each converted by one call, can be compared.
# What happens: `from_latlon` of arrays takes the zone of their first place for all of them. Where a border of zones
#     runs through a town, each array is in one of two zones, by the order of its rows, and their eastings differ by
#     more than 400 km. Row by row each place has its own zone, and pairs across the border are lost.
# Why it matters: 500 queries have 16 places of a gallery of 500 within 25 m, and none in another order of the same
#     rows: every recall is 0 where the data set has positives. Pass one `force_zone_number` to all calls, and compare
#     the zones that they return.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet utm==0.9.0 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import utm

print("utm", version("utm"))
rng = np.random.default_rng(0)
latitude = 50.78 + rng.uniform(-0.02, 0.02, 1000)  # near Aachen; zone 32 begins at 6 degrees east
longitude = 6.0 + rng.uniform(-0.03, 0.03, 1000)


def converted(rows, **options):
    """Return eastings and northings of some places, and their zone."""
    easting, northing, zone, _ = utm.from_latlon(latitude[rows], longitude[rows], **options)
    return np.stack([easting, northing], axis=1), zone


def num_near(queries, gallery):
    """Return the number of pairs within 25 m."""
    return int((np.linalg.norm(queries[:, None] - gallery, axis=2) <= 25).sum())


def first_of(rows, is_east):
    """Return rows with the first place on one side of the border in front."""
    place = int(np.flatnonzero((longitude[rows] >= 6) == is_east)[0])
    return np.roll(rows, -place)


queries, gallery = np.arange(500), np.arange(500, 1000)
found = {}
for sides in ((False, False), (False, True)):
    (query_places, query_zone), (gallery_places, gallery_zone) = (
        converted(first_of(rows, is_east)) for rows, is_east in zip((queries, gallery), sides)
    )
    found[query_zone, gallery_zone] = num_near(query_places, gallery_places)
    number = found[query_zone, gallery_zone]
    print(f"queries in zone {query_zone}, gallery in zone {gallery_zone}: {number} pairs within 25 m")
zones = {int(utm.from_latlon(*place)[2]) for place in zip(latitude, longitude)}
print("zones of the places one by one:", sorted(zones))
forced = [converted(first_of(rows, True), force_zone_number=31)[0] for rows in (queries, gallery)]
print(f"both in zone 31 by force_zone_number: {num_near(*forced)} pairs")

assert found == {(31, 31): 16, (31, 32): 0}
assert zones == {31, 32}
assert num_near(*forced) == 16
print("as described")
PYTHON
