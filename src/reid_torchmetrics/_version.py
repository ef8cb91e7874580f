"""The version of the package; its face imports everything, so modules take the version from here."""

__version__ = "0.1.0"
