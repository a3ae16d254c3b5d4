"""Fitted models and their files."""

from .file import ModelFileError, load, save

__all__ = ["ModelFileError", "load", "save"]
