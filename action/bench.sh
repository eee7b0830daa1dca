#!/usr/bin/env bash
# Compares, puts a table into the job's summary, and then fails if a condition of FAIL_IF holds.
#
# BENCH and CARGO_BENCH have arguments, quoted as in a shell; the results go to RUNNER_TEMP.
set -euo pipefail

conditions=()
while IFS= read -r condition; do
    [ -z "$condition" ] || conditions+=(--fail-if "$condition")
done <<<"$FAIL_IF"
# Said before anything is measured. Results that are compared with themselves never changed, so it would never fail.
if [ -z "$AGAINST" ] && [[ $FAIL_IF == *%* ]]; then
    echo "::error::a condition about a change needs earlier results: set \`against\`, or write a value: wall>1.5s" >&2
    exit 2
fi

results=$RUNNER_TEMP/reheap-results.json
rm -f "$results"
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
if [ -e "$results" ]; then
    reheap report "$results" --markdown >>"$GITHUB_STEP_SUMMARY"
    echo "results=$results" >>"$GITHUB_OUTPUT"
fi
[ "$status" -eq 0 ] || exit "$status"

if [ -n "$AGAINST" ] || [ ${#conditions[@]} -gt 0 ]; then
    # Without earlier results, conditions are about values only, which the comparison with themselves shows.
    comparison=$RUNNER_TEMP/reheap-comparison.txt
    reheap bench compare "${AGAINST:-$results}" "$results" "${conditions[@]}" >"$comparison" 2>&1 || status=$?
    # Names in earlier results are others' words: none of them is a command of GitHub's.
    read -r token </proc/sys/kernel/random/uuid
    echo "::stop-commands::$token"
    cat "$comparison"
    echo "::$token::"
    { echo '```text' && cat "$comparison" && echo '```'; } >>"$GITHUB_STEP_SUMMARY"
fi
exit "$status"
