"""The version of the package, apart from its face, which imports everything."""

__version__ = "0.1.0"
