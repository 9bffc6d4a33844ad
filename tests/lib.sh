# Sourced by tests in bash: counts in TAP, a scratch directory that goes at the end.
#
#   check NAME COMMAND...            passes when the command succeeds
#   check_fails STATUS TEXT NAME COMMAND...
#                                    passes when it exits with STATUS and says TEXT (an extended
#                                    regular expression) on standard error
#   unprivileged COMMAND...          runs it as one whom files' modes bind, which they do not bind root
#   done_testing                     the plan and the exit status; call it last
#
# $FIRN is the command under test, $scratch the directory.
set -u
FIRN=${FIRN:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/firn}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/firn-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
test_number=0
test_failures=0

report_check() { # passed? name log
    test_number=$((test_number + 1))
    if [ "$1" = 0 ]; then
        echo "ok $test_number - $2"
    else
        test_failures=$((test_failures + 1))
        echo "not ok $test_number - $2"
        sed 's/^/# /' "$3" | head -40
    fi
}

check() {
    # The command may be a shell function with variables of its own, so ours are named apart.
    local check_name=$1
    shift
    "$@" > "$scratch/.log" 2>&1
    report_check $? "$check_name" "$scratch/.log"
}

check_fails() {
    local check_status=$1 check_text=$2 check_name=$3 check_got
    shift 3
    "$@" > "$scratch/.out" 2> "$scratch/.log"
    check_got=$?
    if [ "$check_got" = "$check_status" ] && grep -qE -- "$check_text" "$scratch/.log"; then
        report_check 0 "$check_name"
    else
        echo "(exit status $check_got instead of $check_status, or no match for: $check_text)" >> "$scratch/.log"
        report_check 1 "$check_name" "$scratch/.log"
    fi
}

unprivileged() {
    local rights=-dac_override,-dac_read_search
    if [ "$(id -u)" = 0 ]; then
        setpriv --bounding-set=$rights --inh-caps=$rights "$@"
    else
        "$@"
    fi
}

done_testing() {
    echo "1..$test_number"
    [ "$test_failures" = 0 ]
    exit
}
