"""`import nki` is ours in every test, and what hypothesis finds is the same on every machine."""

import hypothesis

import neuroncore

neuroncore.activate()
hypothesis.settings.register_profile("neuroncore", deadline=None, derandomize=True)
hypothesis.settings.load_profile("neuroncore")
