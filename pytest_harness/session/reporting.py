from __future__ import annotations
def write_reports(plan, judged, config):
    return None
