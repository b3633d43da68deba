"""The seam suite: each attempt says something of its subject, and meets each requirement that applies to it.

The plugin parametrises both tests: an attempt is run, or read from disk, once and shared by all of them.
"""


def test_rollout(harness_evidence, settle_validity):
    """The rollout is valid: the harness reached the engine, and nothing around it broke."""
    settle_validity(harness_evidence)


def test_requirement(harness_evidence, harness_requirement, settle):
    """The evidence of the attempt meets the requirement."""
    settle(harness_evidence, harness_requirement)
