"""What keeps the start quick: modules and methods of data classes that are made when they are used,
and versions by the names of folders."""
