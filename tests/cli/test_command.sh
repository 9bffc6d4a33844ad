#!/usr/bin/env bash
# The firn command itself: finding its subcommands, help, man pages.
. "$(dirname "$0")/../lib.sh"
lint="$(cd "$(dirname "$0")/../lint" && pwd)"

check_fails 2 '^Usage: firn COMMAND' "no command at all" $FIRN
check_fails 2 'there is no command "survye"; did you mean survey' "a mistyped command" $FIRN survye
check_fails 2 'names no command' "options without a command" $FIRN --threads=4
check "--version tells version and commit" sh -c "$FIRN --version | grep -qE '^firn [0-9]+\.[0-9]+\.[0-9]+ \(.+\)$'"
for word in --help -h help; do
    check "$word lists the commands" sh -c "$FIRN $word | grep -q '^  survey '"
done
for command in $($FIRN --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    check "$command --help" sh -c "$FIRN $command --help | grep -q '^Usage: firn $command'"
    check "$command --help fits a terminal" sh -c "! $FIRN $command --help | grep -nE '^.{81}'"
    check "$command refuses an unknown option" test "$($FIRN $command --no-such-option > /dev/null 2>&1; echo $?)" = 2
done
check "the man pages have the options of --help, and no others" "$lint/man" "$FIRN"

# As sysbench's command lines, of version 1 and before.
check "options before the command" sh -c "cd $scratch && $FIRN --file-num=1 --file-total-size=64K fileio prepare"
check "the command as an option" sh -c "cd $scratch && $FIRN --test=fileio --file-num=1 --file-total-size=64K --file-test-mode=rndrd --max-requests=10 --num-threads=1 run | grep -q 'total number of events: *10'"
check "the command in the middle" sh -c "cd $scratch && $FIRN --file-num=1 fileio --file-total-size=64K cleanup"
check "which did its work" test ! -e "$scratch/test_file.0"
done_testing
