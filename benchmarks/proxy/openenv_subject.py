"""OpenEnv's capture server as it ships, on a loopback port: PORT ENGINE_PORT. Runs in OpenEnv's environment."""

import logging
import sys

import uvicorn
from openenv.core.harness.capture.server import create_app

logging.disable(logging.CRITICAL)
app = create_app(llm_url=f"http://127.0.0.1:{sys.argv[2]}", model="m")
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False)
