"""Names of images as bytes: what is packed is unpacked, and numbered in the order of strings."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection.inputs.image_names import number_names, pack_names, unpack_names
from tests.profiles import examples


@examples(50)
@given(st.lists(st.text(st.characters(codec=None, exclude_categories=()), max_size=5)))
def test_packed_names_are_unpacked_and_numbered_in_the_order_of_strings(names):
    packed, lengths = pack_names(names)
    assert (packed.dtype, lengths.dtype, len(lengths)) == (torch.uint8, torch.int64, len(names))
    assert unpack_names(packed, lengths) == names
    distinct, places = number_names(names)
    assert [*distinct] == sorted(set(names))
    assert [distinct[place] for place in places.tolist()] == names
