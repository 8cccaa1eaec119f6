"""Stand-ins for the packages by which frameworks launch kernels, as far as launching needs them."""
