"""The judge behind the interfaces of published search programs."""
