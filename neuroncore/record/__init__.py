"""The record of a run: the program of issued instructions, and its file."""
