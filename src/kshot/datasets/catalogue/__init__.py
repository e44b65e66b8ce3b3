"""Well-known benchmarks, one file each; a file's name is the dataset's."""
