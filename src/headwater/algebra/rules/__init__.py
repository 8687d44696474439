"""The optimizer: a list of rules from trees to trees, each a file of its own with an example. None needs to know types
or a server; each leaves the rows as they are."""

from headwater.algebra.rules.optimize import RULES, optimized

__all__ = ["RULES", "optimized"]
