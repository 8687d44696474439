"""The demo: real databases, concurrent writers, three views kept up to date, and a check at the end."""

from headwater.cli.demo.command import demo

__all__ = ["demo"]
