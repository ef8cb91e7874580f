"""Adds the project's addresses to the metadata where a release is built; a copy built elsewhere names none."""

import os

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "PROJECT_REPOSITORY_URL"  # both are set by .github/workflows/publish.yml
DOCUMENTATION = "PROJECT_DOCUMENTATION_URL"


class Addresses(MetadataHookInterface):
    """Fills `urls`; they are written into the source distribution, so that a wheel made from it has them too."""

    def update(self, metadata: dict[str, object]) -> None:
        """Add what the environment names."""
        repository = os.environ.get(REPOSITORY, "").rstrip("/")
        documentation = os.environ.get(DOCUMENTATION, "")
        urls = {}
        if repository:
            urls |= {
                "Homepage": documentation or repository,
                "Source": repository,
                "Issues": f"{repository}/issues",
                "Changelog": f"{repository}/blob/main/CHANGELOG.md",
            }
        if documentation:
            urls["Documentation"] = documentation
        if urls:
            metadata["urls"] = urls
