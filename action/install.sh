#!/usr/bin/env bash
# Makes the environment that the next step runs in, as `make` does, from the lock of this very version, unless one was named.
set -euo pipefail
environment="${HARNESS_ENVIRONMENT:-}"
if [ -z "$environment" ]; then
	environment="$RUNNER_TEMP/harness-conformance"
	make --silent -C "$GITHUB_ACTION_PATH" "VENV=$environment" "TOOLS=$environment-tools" "$environment/.ready"
fi
echo "HARNESS_BIN=$(cd "$environment/bin" && pwd)" >>"$GITHUB_ENV"
