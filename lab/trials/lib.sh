# What the trials share. A trial prints only what is the same in every run.

# Calls a command until it succeeds, for a minute at most: a daemon that has been started needs its time.
until_ready() {
    deadline=$(($(date +%s) + 60))
    until "$@" >/dev/null 2>&1; do
        if [ "$(date +%s)" -gt "$deadline" ]; then
            echo "gave up waiting for: $*"
            jobs >&2
            exit 99
        fi
        sleep 0.05
    done
}

# Asks a process of this script to end, and says how it ended.
finish() {
    kill "$1"
    status=0
    # The shell says `Terminated` of some, at a time of its choice.
    wait "$1" 2>/dev/null || status=$?
    echo "ended with $status"
}

# Runs a test and says how it went, as automake does.
check() {
    name=$1
    shift
    if "$@"; then
        echo "PASS: $name"
    else
        echo "FAIL: $name"
    fi
}
