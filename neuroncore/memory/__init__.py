"""Storage (the memory of one tensor in HBM, SBUF or PSUM), tiles (strided windows on a storage),
scalar registers, and access patterns."""
