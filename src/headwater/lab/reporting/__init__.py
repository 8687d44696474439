"""Runs experiments and writes down what they found: data, plots, claims, one page for all."""
