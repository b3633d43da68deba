#!/usr/bin/env bash
# Makes the environment that the next step runs in, from the lock of this very version, unless one was named.
set -euo pipefail
environment="${HARNESS_ENVIRONMENT:-}"
if [ -z "$environment" ]; then
	environment="$RUNNER_TEMP/harness-conformance"
	python3 -m venv "$environment"
	"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$GITHUB_ACTION_PATH/requirements.lock"
	"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation "$GITHUB_ACTION_PATH"
fi
echo "HARNESS_BIN=$(cd "$environment/bin" && pwd)" >>"$GITHUB_ENV"
