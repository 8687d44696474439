"""Adapters that keep the source contract (headwater.model.source) over real databases."""

from headwater.sources.connect import connect, register

__all__ = ["connect", "register"]
