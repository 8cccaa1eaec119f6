"""The plain reading: every instruction in plain numpy, independent of the emulator."""
