"""Compiled loops over numbers: formats, products, elementary functions, folds, random numbers."""
