"""A git-backed, file-native agent harness: every lesson is one small, validated git commit."""

__version__ = "0.1.0"
