"""Confined processes for code that is not trusted: config files, and programs that a model wrote.

``profiles`` says how far each use may go, ``process`` starts and ends a process, ``program`` runs one program,
``calls`` calls functions in a process that is kept, ``guest`` those of another project. Modules whose names begin with
``_`` run inside the confined process: they are loaded by path and import the standard library and each other, nothing
else.
"""
