"""What devices did and what the compiler made: device traces (.ntff), compiled programs (.neff)."""
