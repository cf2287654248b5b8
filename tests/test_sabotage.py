"""The patches of `make sabotage` fit the code; that command shows that the tests notice them."""

import pytest

from tests.sabotage import PATCHES, ROOT, Patch


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_the_text_of_a_patch_is_once_in_its_file(patch: Patch):
    assert (ROOT / "assignadd" / patch.file).read_text().count(patch.text) == 1


def test_every_patch_has_a_name_of_its_own():
    assert len({patch.name for patch in PATCHES}) == len(PATCHES)
