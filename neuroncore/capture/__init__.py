"""Files of the device: traces (.ntff) and compiled programs (.neff)."""
