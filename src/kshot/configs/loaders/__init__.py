"""Reading the data folders of AISBench and OpenCompass as they lie on disk, one small module for each family."""
