#!/usr/bin/env bash
# Puts the matrix on the pull request: one comment for these seams, written anew by each run. That it cannot be written, as by a run of a
# fork, whose token may not, makes no job red.
set -euo pipefail
matrix="$HARNESS_FOLDER/report/matrix.md"
marker="<!-- harness-conformance: $HARNESS_NAMES -->"
text="$RUNNER_TEMP/harness-conformance-comment.md"
{
	echo "$marker"
	if [ -f "$matrix" ]; then
		# Links to pages beside the matrix lead nowhere from here; GitHub takes 65,536 characters.
		sed -E 's/\[([^]]*)\]\(pages\/[^)]*\)/\1/g' "$matrix" | head -c 60000
	else
		echo "harness-conformance came to no report; the job's log says why."
	fi
	echo
	echo "[The run]($GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID) has the whole report and the evidence."
} >"$text"
comments="repos/$GITHUB_REPOSITORY/issues/$HARNESS_PULL_REQUEST/comments"
write() {
	local id
	id="$(MARKER="$marker" gh api --paginate "$comments" --jq '.[] | select(.body | startswith(env.MARKER)) | .id' | head -n 1)" || return 1
	if [ -n "$id" ]; then
		gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -F "body=@$text"
	else
		gh api --silent --method POST "$comments" -F "body=@$text"
	fi
}
write || echo "::warning::the matrix could not be commented; the job needs the permission pull-requests: write, and a run of a fork has none"
