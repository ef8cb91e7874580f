"""Adds the project's addresses to the metadata where a release is built; a copy built elsewhere names none."""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "PROJECT_REPOSITORY_URL"  # both are set by .github/workflows/publish.yml
DOCUMENTATION = "PROJECT_DOCUMENTATION_URL"


class Addresses(MetadataHookInterface):
    """Fills `urls` and `readme`; the source distribution holds both, so that a wheel made from it has them too."""

    def update(self, metadata: dict[str, object]) -> None:
        """Add what the environment names."""
        repository = os.environ.get(REPOSITORY, "").rstrip("/")
        documentation = os.environ.get(DOCUMENTATION, "")
        if "readme" not in metadata:
            text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
            if repository:
                text = absolute(text, repository, f"v{metadata['version']}")
            metadata["readme"] = {"content-type": "text/markdown", "text": text}
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


def absolute(text: str, repository: str, tag: str) -> str:
    """A page whose links to files of the repository work elsewhere: they lead to the files as they were at a tag."""
    return re.sub(
        r"(!?)(\[[^]]*\]\()(?!\w+:|#)",
        lambda link: f"{link[1]}{link[2]}{repository}/{'raw' if link[1] else 'blob'}/{tag}/",
        text,
    )
