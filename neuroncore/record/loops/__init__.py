"""Compiled loops over the columns of a record: its rows, and the boxes of bytes that they touch."""
