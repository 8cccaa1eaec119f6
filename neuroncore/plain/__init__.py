"""The plain reading: every instruction in plain numpy, without using code of the emulator."""
