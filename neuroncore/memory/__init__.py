"""Storage, tiles, registers, and access patterns."""
