"""How sure a figure is, and which of two systems is ahead."""
