"""What published tests import of the compiler's internals."""
