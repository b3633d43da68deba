"""Programs that run in the Python of what is under test. They import nothing of this package."""
