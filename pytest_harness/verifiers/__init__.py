"""The tools of the verifier suite: one Harbor trial per reward case, and what becomes of its reward all the way to the report."""
