#!/usr/bin/env bash
# Runs the seams. Inputs come as variables and never as parts of this text, so that none of them can be a command.
set -euo pipefail
arguments=()
each() { # OPTION WORDS: the option once for each word
	local word
	for word in $2; do arguments+=("$1=$word"); done
}
one() { # OPTION VALUE: the option, if it has a value
	if [ -n "$2" ]; then arguments+=("$1=$2"); fi
}
set -f
each --harness "$HARNESS_NAMES"
each --scenario "$HARNESS_SCENARIO"
set +f
one --sandbox "$HARNESS_SANDBOX"
one --engine "$HARNESS_ENGINE"
one --attempts "$HARNESS_ATTEMPTS"
one --shard "$HARNESS_SHARD"
one --seams "$HARNESS_SEAMS"
one --scenarios "$HARNESS_SCENARIOS"
one --expected-failures "$HARNESS_EXPECTED_FAILURES"
one --require "$HARNESS_REQUIRE"
if [ "${#arguments[@]}" -eq 0 ] || [[ "${arguments[0]}" != --harness=* ]]; then
	echo "::error::the input harness names none; name a seam, such as pi"
	exit 4
fi
echo "report=$HARNESS_FOLDER/report" >>"$GITHUB_OUTPUT"
"$HARNESS_BIN/python" -m pytest -p no:cacheprovider "${arguments[@]}" \
	"--evidence-dir=$HARNESS_FOLDER/evidence" "--report-dir=$HARNESS_FOLDER/report"
