"""The judge: which consistency level a history has, and why no more. It knows histories and no algorithm."""
