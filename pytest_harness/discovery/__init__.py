"""A new seam: what a package says of itself, what a run in the sandbox shows, and the row that both become."""
