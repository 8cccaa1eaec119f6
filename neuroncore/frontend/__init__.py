"""What users write against: the `nki` API, the import alias, launching a kernel."""
