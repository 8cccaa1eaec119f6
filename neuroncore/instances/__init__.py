"""What cores are bought as: chips, instances, the links between them and the time they take."""
