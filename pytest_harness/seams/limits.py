"""What one rollout may use of the machine, written once: the defaults here, and what a row says otherwise."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

MB = 1 << 20


class Limits(BaseModel):
    """So much and no more, for everything that runs in one sandbox. Time has its own key: ``agent.timeout_sec``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    output_mb: int = Field(default=256, ge=1, le=1 << 20, examples=[256])
    """Megabytes that a command may print, and that its logs may take."""
    disk_mb: int = Field(default=4096, ge=16, le=1 << 20, examples=[4096])
    """Megabytes that its other files may take, and that one of them may have, holes and all; they lie in memory."""
    memory_mb: int = Field(default=3072, ge=64, le=1 << 20, examples=[3072])
    """Megabytes of memory that its processes may have together; as much is set aside when rollouts run side by side."""
    processes: int = Field(default=4096, ge=16, le=1 << 20, examples=[4096])
    """Processes and threads: far more than any harness needs, and a fork bomb does not take the machine with it."""
