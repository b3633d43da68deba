"""The tools of the engine suite: one chat endpoint, asked as a trainer's capture would ask it, and its replies read in one form.

What is judged is in ``conformance/engine``; this package knows neither pytest nor requirements. A model need not be clever: where the
engine takes ``structured_outputs``, it is told what to say, and where it does not and says something else, the case is not exercised.
"""
