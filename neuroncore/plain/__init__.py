"""The plain reading: the meaning of every instruction in plain numpy, apart from the emulator."""
