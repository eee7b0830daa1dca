#!/usr/bin/env bash
# Compares, puts a table into the job's summary, and then fails if a condition of FAIL_IF holds.
#
# BENCH and CARGO_BENCH have arguments, quoted as in a shell; the results go to RUNNER_TEMP.
set -euo pipefail

results=$RUNNER_TEMP/reheap-results.json
if [ -n "$CARGO_BENCH" ]; then
    eval "arguments=($CARGO_BENCH)"
    command=(cargo reheap bench)
else
    eval "arguments=($BENCH)"
    command=(reheap bench)
fi
# A variant that crashed is in the table, too; so the table comes before the failure.
status=0
# shellcheck disable=SC2154 # eval sets it
"${command[@]}" --json "$results" "${arguments[@]}" || status=$?
[ ! -e "$results" ] || reheap report "$results" --markdown >>"$GITHUB_STEP_SUMMARY"
[ "$status" -eq 0 ] || exit "$status"
echo "results=$results" >>"$GITHUB_OUTPUT"

conditions=()
while IFS= read -r condition; do
    [ -z "$condition" ] || conditions+=(--fail-if "$condition")
done <<<"$FAIL_IF"
if [ -n "$AGAINST" ] || [ ${#conditions[@]} -gt 0 ]; then
    # Without earlier results, conditions can be about values only: `peak-rss>500MiB`.
    reheap bench compare "${AGAINST:-$results}" "$results" "${conditions[@]}"
fi
