"""The plain reading: every instruction in plain numpy, with no code of the emulator."""
