"""Where a run leaves its things, below the folder in which it is started, unless it is told otherwise."""

from pathlib import Path

EVIDENCE_DIR = Path(".harness/evidence")
REPORT_DIR = Path(".harness/report")
ROLLOUT_DIR = Path(".harness/rollouts")
BISECT_DIR = Path(".harness/bisect")
REPLAY_DIR = Path(".harness/replay")
"""What judges stored evidence, perhaps of one attempt, must not overwrite the report of the run that made it."""
