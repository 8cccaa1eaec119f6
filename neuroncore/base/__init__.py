"""Code for every room: errors, findings, places in the user's source, options and enumerations.

`lazy` and `structs` keep the start quick: modules and methods of data classes that are made when
they are used, and versions by the names of folders. `processes` ends child processes.
`codes/` is the table of the codes of findings, a row each.
"""
