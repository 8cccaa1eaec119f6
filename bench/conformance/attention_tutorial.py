"""Run one version of nki-samples' attention tutorial, by the test in the tutorial's folder."""

import sys

import test_attention

version = getattr(test_attention, f"attn_fwd_{sys.argv[1]}")
test_attention.test_attn_tutorial("accuracy", version)
