#!/bin/sh
# One verb of tussle as a step of continuous integration: ci-step.sh VERB [ARGUMENT..]
# The exit status is tussle's: 0 clean, 1 a finding or a regression, 2 an error or nothing that could be judged.
# On GitHub findings become annotations, and the same result as Markdown goes into the summary of the job.
set -u

[ $# -gt 0 ] || { echo "usage: ci-step.sh VERB [ARGUMENT..]" >&2; exit 2; }
tussle=${TUSSLE:-tussle}
verb=$1

case $verb in
hunt | record | record-kernel | bench | bisect | live | cargo)
    # These run the project's own code. That event runs a stranger's code with the repository's secrets.
    if [ "${GITHUB_EVENT_NAME:-}" = pull_request_target ]; then
        echo "ci-step.sh: \`tussle $verb\` runs the project's code; not on pull_request_target: use pull_request" >&2
        exit 2
    fi
    ;;
esac

[ "${GITHUB_ACTIONS:-}" = true ] || exec "$tussle" "$@"

case $verb in
report | check)
    "$tussle" "$@" --format github
    status=$?
    [ -z "${GITHUB_STEP_SUMMARY:-}" ] || "$tussle" "$@" --quiet --format md >>"$GITHUB_STEP_SUMMARY"
    ;;
diff | layout | advise | compare | history)
    text=$("$tussle" "$@" --format md)
    status=$?
    printf '%s\n' "$text"
    [ -z "${GITHUB_STEP_SUMMARY:-}" ] || printf '%s\n' "$text" >>"$GITHUB_STEP_SUMMARY"
    ;;
*)
    # too dear to run twice
    "$tussle" "$@"
    status=$?
    ;;
esac
exit "$status"
