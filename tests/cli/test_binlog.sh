#!/usr/bin/env bash
# firn binlog: show and apply, from where to where, point-in-time recovery, kill -9, bad input.
. "$(dirname "$0")/../lib.sh"
make_binlog="$(dirname "$FIRN")/tests/tools/make_binlog"
export TZ=UTC
small="--buffer-pool-size=16M --log-file-size=4M"
db=$scratch/db
show() {
    $FIRN binlog show "$@"
}
apply() {
    $FIRN binlog apply $small "$@"
}
prints() { # TEXT COMMAND...
    local text=$1
    shift
    "$@" | tee "$scratch/said" | grep -qE -- "$text"
}
# What a log adds up to: keys and their last payloads.
adds_up() { # DIR|FILE...
    show --json "$@" | python3 -c '
import json, sys
state, expect = {}, None
for line in sys.stdin:
    event = json.loads(line)
    kind = event["event"]
    if kind == "begin":
        assert expect in (None, event["group"]), (expect, event)
        expect = event["group"] + 1
    elif kind in ("insert", "update", "delete"):
        key = (event["tree"], event["key"])
        assert state.get(key) == event.get("before"), (state.get(key), event)
        state.pop(key, None)
        if "after" in event:
            state[key] = event["after"]
for (tree, key), payload in sorted(state.items()):
    print(tree, key, payload)
'
}

"$make_binlog" "$db" 1 200 > /dev/null || exit 1
check "files and an index" test -f "$db/binlog.000002" -a -f "$db/binlog.index"
check "show prints groups" prints '^BEGIN$' show "$db"
check "and changes" prints "^INSERT	rows	row-000007	the payload of 7$" show "$db"
check "with what was before" prints "^UPDATE	counter	last	6	7$" show "$db"
check "and deletes" prints "^DELETE	rows	row-000005	the payload of 5$" show "$db"
check "200 groups" prints '^200$' sh -c "$FIRN binlog show $db | grep -c '^COMMIT'"
adds_up "$db" > "$scratch/state"
check "they add up" prints '^counter last 200$' cat "$scratch/state"
check "JSON has a line an event" prints '^200$' sh -c "$FIRN binlog show --json $db | grep -c '\"event\":\"begin\"'"
check "one file" prints 'group 1 ' show "$db/binlog.000001"
check "several files are one log" sh -c "[ \$($FIRN binlog show $db/binlog.0* | grep -c ^COMMIT) = 200 ]"
check "one tree" sh -c "! $FIRN binlog show --tree=counter $db | grep -q row-"

# From where to where.
check "--start-group, --stop-group" sh -c "[ \$($FIRN binlog show --start-group=11 --stop-group=20 $db | grep -c ^COMMIT) = 10 ]"
position=$(show --start-group=5 --stop-group=5 "$db" | sed -n 's/^# at //p')
check "--start-position" prints 'group 5 ' show --start-position=$position --stop-group=5 "$db"
check "--stop-position" sh -c "[ \$($FIRN binlog show --stop-position=$position $db/binlog.000001 | grep -c ^COMMIT) = 4 ]"
check_fails 1 'no whole group begins at position' "a position between groups" $FIRN binlog show --start-position=$((position + 1)) "$db"
time=$(show --json --start-group=50 --stop-group=50 "$db" | sed -n 's/.*"time":"\([^"]*\)".*/\1/p')
check "--stop-datetime" sh -c "[ \$($FIRN binlog show --stop-datetime='$time' $db | grep -c ^COMMIT) -le 49 ]"
check "--start-datetime" prints '"group":50,' show --json "--start-datetime=$time" "$db"
check "--start-file" prints '# .*binlog.000002$' show --start-file=2 "$db"

# Applying.
check "apply" prints '^200 groups applied' apply --create --binlog --max-binlog-size=16K "$scratch/copy" "$db"
adds_up "$scratch/copy" > "$scratch/copied"
check "the copy's own binary log adds up to the same" cmp "$scratch/state" "$scratch/copied"
check "apply again" prints '^0 groups applied \(0 rows\), 200 were there' apply "$scratch/copy" "$db"
check "the copy is whole" $FIRN check $small "$scratch/copy"
check "part by part" sh -c "for stop in 30 31 90 0; do $FIRN binlog apply $small --create --binlog --stop-group=\$stop $scratch/parts $db || exit 1; done"
adds_up "$scratch/parts" > "$scratch/copied"
check "adds up to the same" cmp "$scratch/state" "$scratch/copied"
check "to a moment" prints '"last_group": (49|4.)' apply --json --create "--stop-datetime=$time" "$scratch/moment" "$db"

# From a copy of the environment: it has its own groups already.
cp -r "$db" "$scratch/backup"
"$make_binlog" "$db" 201 50 > /dev/null
check "a backup is brought forward" prints '^50 groups applied' apply --binlog "$scratch/backup" "$db"
adds_up "$db" > "$scratch/state"
adds_up "$scratch/backup" > "$scratch/copied"
check "and is what the environment is" cmp "$scratch/state" "$scratch/copied"
check "it has nothing to be applied" prints '^0 groups applied' apply --binlog "$scratch/backup" "$db"

# Killed while it works, in both ways: what was printed is there, and the log is the state.
for way in together separate; do
    for round in 1 2 3; do
        : > "$scratch/acked" # there from the beginning, and none of the round before
        "$make_binlog" "$scratch/killed-$way" $((round * 10000)) 5000 $way >> "$scratch/acked" &
        pid=$!
        while [ "$(wc -l < "$scratch/acked")" -lt $((round * 40)) ] && kill -0 $pid; do sleep 0.02; done
        kill -9 $pid
        wait $pid 2> /dev/null
        last=$(tail -n 1 "$scratch/acked")
        "$make_binlog" "$scratch/killed-$way" $((round * 10000 + 9000)) 1 $way > /dev/null
        adds_up "$scratch/killed-$way" > "$scratch/state"
        check "$way: killed $round: what was acknowledged is in the log" grep -q "row-0*$last the payload" "$scratch/state"
        check "$way: and the environment is whole" $FIRN check $small "$scratch/killed-$way"
    done
done

# Bad input.
check_fails 2 'show or apply' "no action" $FIRN binlog
check_fails 2 'there is no "firn binlog shwo"; did you mean show' "a mistyped action" $FIRN binlog shwo x
check_fails 2 'which directory' "no directory" $FIRN binlog show
check_fails 2 'apply what' "nothing to apply" $FIRN binlog apply "$db"
check_fails 2 'is for apply, not for show' "an option of apply" $FIRN binlog show --idempotent "$db"
check_fails 2 'needs --binlog' "an option of --binlog" $FIRN binlog apply --server-id=2 "$db" "$db"
check_fails 2 'is no time' "no time" $FIRN binlog show --start-datetime=noon "$db"
check_fails 2 'is no time' "a day that there is not" $FIRN binlog show '--start-datetime=2026-02-30 00:00:00' "$db"
check_fails 1 'there is no binary log in' "no binary log" $FIRN binlog show "$scratch"
check_fails 1 'is no binary log of firn' "another file" $FIRN binlog show "$db/firn.env"
check_fails 1 'cannot look at' "no file" $FIRN binlog show "$scratch/nothing"
check_fails 1 'there is no environment' "no environment" $FIRN binlog apply "$scratch/none" "$db"
rm -r "$scratch/parts"
check_fails 1 'there is no row|there is another payload' "a log that does not go on from there" $FIRN binlog apply $small --create --start-group=20 "$scratch/parts" "$db"
check "--idempotent" prints 'groups applied' apply --start-group=20 --idempotent "$scratch/parts" "$db"
printf '\377' | dd of="$db/binlog.000001" bs=1 seek=300 conv=notrunc 2> /dev/null
check_fails 1 'binlog.000001 is damaged between' "damage" $FIRN binlog show "$db"
truncate -s -1 "$scratch/backup/binlog.000001"
check_fails 1 'binlog.000001 is truncated' "truncation" $FIRN binlog show "$scratch/backup"
rm "$scratch/backup/binlog.000001"
check_fails 1 'binlog.000001, but it is missing' "a missing file" $FIRN binlog show "$scratch/backup"
done_testing
