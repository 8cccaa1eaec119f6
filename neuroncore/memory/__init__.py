"""Where data are: storage, tiles, registers, and the patterns by which they are read."""
