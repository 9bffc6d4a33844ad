#!/usr/bin/env bash
# firn kv: lines in, lines out; every action and its options; interruption and kill -9; bad input.
. "$(dirname "$0")/../lib.sh"

small="--buffer-pool-size=16M --log-file-size=4M"
db=$scratch/db
kv() { # DIR ACTION...
    $FIRN kv $small "$@"
}
same() { # FILE COMMAND...: the command prints what is in the file
    local want=$1
    shift
    "$@" | cmp - "$want"
}
prints() { # TEXT COMMAND...
    local text=$1
    shift
    "$@" | tee "$scratch/said" | grep -qE -- "$text"
}

# Every byte, in keys and values, and in an order that is not theirs.
python3 - "$scratch" << 'PYTHON'
import random, sys
def escape(data):
    names = {0: b"\\0", 9: b"\\t", 10: b"\\n", 13: b"\\r", 92: b"\\\\"}
    return b"".join(names.get(c) or (b"\\x%02x" % c if c < 32 or c == 127 else bytes([c])) for c in data)
rows = {bytes([c]) * (c % 3 + 1): bytes([255 - c]) * (c % 5) for c in range(256)}
rows.update((b"row-%06d" % i, b"v" * (i * 7919 % 300)) for i in range(5000))
rows[b"large"] = bytes(range(256)) * 1000
lines = [escape(k) + b"\t" + escape(v) + b"\n" for k, v in sorted(rows.items())]
open(sys.argv[1] + "/sorted", "wb").write(b"".join(lines))
random.Random(1).shuffle(lines)
open(sys.argv[1] + "/shuffled", "wb").write(b"".join(lines))
PYTHON

# load and scan
check "load" sh -c "$FIRN kv $small $db load < $scratch/shuffled > $scratch/loaded"
check "load says how much and how fast" grep -qE '^5257 rows loaded in [0-9.]+ s: [0-9.]+ k? ?rows/s, 6 commits, [0-9]+ log syncs$' "$scratch/loaded"
check "scan prints what was loaded, in order" same "$scratch/sorted" kv "$db" scan
tac "$scratch/sorted" > "$scratch/reversed"
check "scan --reverse" same "$scratch/reversed" kv "$db" scan --reverse
check "scan --count" prints '^5257$' kv "$db" scan --count
check "scan --limit" prints '^row-000000' kv "$db" scan --from=row --limit=1
grep -a '^row-0012' "$scratch/sorted" > "$scratch/some"
check "scan --prefix" same "$scratch/some" kv "$db" scan --prefix=row-0012
check "scan --from --to" same "$scratch/some" kv "$db" scan --from=row-0012 --to=row-0013
check "limits are taken together" prints '^50$' kv "$db" scan --prefix=row-0012 --from=row-001250 --count
tac "$scratch/some" > "$scratch/some.reversed"
check "a range backwards" same "$scratch/some.reversed" kv "$db" scan --from=row-0012 --to=row-0013 --reverse
check "a prefix of the largest bytes" prints '^1$' kv "$db" scan '--prefix=\xff' --count
check "an empty range" prints '^0$' kv "$db" scan --from=x --to=a --count
check "the other names of options" prints '^5257$' $FIRN kv --innodb_buffer_pool_size=16M "$db" scan --count

# A second load replaces; a new tree beside; another one in the system tablespace.
printf 'row-000001\tnew\n' > "$scratch/new"
check "load again" sh -c "$FIRN kv $small $db load < $scratch/new"
check "it has replaced" same "$scratch/new" kv "$db" get row-000001
check "and nothing else" prints '^5257$' kv "$db" scan --count
check "many threads, a shared tree" sh -c "$FIRN kv $small $db load --tree=other --shared --threads=4 --commit-every=10 --flush-log-at-commit=2 < $scratch/shuffled"
check "it has the same rows" same "$scratch/sorted" kv "$db" scan --tree=other
check "it has no file" test ! -e "$db/other.firn"
for i in $(seq 2000); do printf 'k%d\t%d\n' $((i % 7)) "$i"; done > "$scratch/again"
check "lines of one key stay in order" sh -c "$FIRN kv $small $db load --tree=order --threads=8 < $scratch/again"
check "so the last ones count" prints '^k4	1999$' kv "$db" scan --tree=order
check "bulk" sh -c "$FIRN kv $small $db load --tree=bulk --bulk < $scratch/sorted"
check "it has the same rows too" same "$scratch/sorted" kv "$db" scan --tree=bulk
check "--json" sh -c "$FIRN kv $small $db load --tree=json --json < $scratch/new > $scratch/json"
check "it has the figures" jq -e '.rows == 1 and .seconds > 0 and .rows_per_s > 0 and .commits == 1 and .log_syncs >= 0 and .log_bytes > 0' "$scratch/json"

# get
check "get several" prints '^row-000002' kv "$db" get row-000001 row-000002
check "get from standard input" sh -c "$FIRN kv $small $db get < $scratch/some | cmp - $scratch/some"
check "get an escaped key" prints '^\\0	' kv "$db" get '\0'
python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)' > "$scratch/large"
check "get --raw" same "$scratch/large" kv "$db" get --raw large
check_fails 1 'there is no key "no\\tsuch"' "a key that is not there" kv "$db" get 'no\tsuch'
check_fails 1 '2 of 3 keys are not there, "none" the first' "two that are not" kv "$db" get none row-000001 nope

# delete and drop
check "delete" prints '^2 rows deleted' kv "$db" delete row-000001 row-000002
check_fails 1 '1 of 2 keys are not there' "they are gone" kv "$db" get row-000001 row-000003
check_fails 1 'there is no key' "delete one that is not there" kv "$db" delete row-000001
check "delete what scan prints" sh -c "$FIRN kv $small $db scan --prefix=row-00 > $scratch/doomed; $FIRN kv $small $db delete --ack --commit-every=100 < $scratch/doomed > $scratch/acked"
cut -f1 "$scratch/doomed" > "$scratch/doomed.keys"
check "each is acknowledged" cmp "$scratch/acked" "$scratch/doomed.keys"
check "nothing is left of them" prints '^0$' kv "$db" scan --prefix=row-00 --count
check "drop" kv "$db" drop --tree=bulk
check "its file is gone" test ! -e "$db/bulk.firn"
check_fails 1 'there is no tree "bulk"' "and the tree" kv "$db" scan --tree=bulk
check "everything is right" $FIRN check "$db"

# kill -9 while loading: what was acknowledged is there, and nothing else.
mkfifo "$scratch/pipe"
for round in 1 2 3; do
    : > "$scratch/acks.$round"
    (i=0; while :; do printf 'r%s-%06d\t%d\n' "$round" "$i" "$i"; i=$((i + 1)); done) 2> /dev/null > "$scratch/pipe" &
    feeder=$!
    $FIRN kv $small "$scratch/killed" load --ack --commit-every=3 < "$scratch/pipe" > "$scratch/acks.$round" 2> /dev/null &
    loader=$!
    for _ in $(seq 600); do
        [ "$(wc -l < "$scratch/acks.$round")" -gt $((200 * round)) ] && break
        sleep 0.05
    done
    kill -9 "$loader"
    wait "$loader" "$feeder" 2> /dev/null
done
check "an environment that was killed recovers" sh -c "$FIRN kv $small $scratch/killed scan > $scratch/survived 2> $scratch/recovery"
check "it says so" grep -q 'had not been closed: recovered from' "$scratch/recovery"
sed '$!b;/[0-9]$/b;d' "$scratch"/acks.* | grep -xE 'r[123]-[0-9]{6}' | sort > "$scratch/promised"
check "something was acknowledged" test -s "$scratch/promised"
cut -f1 "$scratch/survived" > "$scratch/survived.keys"
check "all that was acknowledged is there" test -z "$(comm -23 "$scratch/promised" "$scratch/survived.keys")"
check "not much else is there" test "$(comm -13 "$scratch/promised" "$scratch/survived.keys" | wc -l)" -lt 2000
check "and everything is right" $FIRN check "$scratch/killed"

# Interrupted: what was read is committed.
: > "$scratch/acks"
(seq -f 'i%g	1' 100; sleep 600) > "$scratch/pipe" &
feeder=$!
$FIRN kv $small "$scratch/stopped" load --ack --commit-every=10 < "$scratch/pipe" > "$scratch/acks" 2> "$scratch/stopped.err" &
loader=$!
for _ in $(seq 600); do
    [ "$(wc -l < "$scratch/acks")" -ge 100 ] && break
    sleep 0.05
done
kill -TERM "$loader"
wait "$loader"
check "an interrupted load exits with 1" test $? = 1
kill "$feeder"
wait "$feeder" 2> /dev/null
check "it says how far it came" grep -q 'interrupted after 100 rows were loaded' "$scratch/stopped.err"
check "rows do not wait for more" test "$(wc -l < "$scratch/acks")" = 100
check "it was closed" sh -c "! $FIRN kv $small $scratch/stopped scan 2>&1 | grep recovered"

# Devices: three classes on models, in directories of their own.
check "on modelled devices" sh -c "$FIRN kv $small $scratch/modelled load --redo-dir=redo --device=table+system=ssd-x25e,redo=nvme < $scratch/some"
check "they carry the files" prints 'redo .*modelled/redo \(.*nvme' $FIRN stat $small "$scratch/modelled" --device=redo=nvme
check "one device for all" prints '^100$' kv "$scratch/modelled" scan --count --device=nvme

# Bad lines: the number, and what was loaded before.
bad() { # TEXT LINES
    printf "$2" > "$scratch/bad.lines"
    rm -rf "$scratch/bad"
    check_fails 1 "$1" "line refused: $1" sh -c "$FIRN kv $small $scratch/bad load < $scratch/bad.lines"
}
bad 'line 3: there is no TAB.*; 2 rows were loaded' 'a\tb\nc\td\ne f\n'
check "they are there" prints '^2$' kv "$scratch/bad" scan --count
bad 'line 1: the key is empty' '\tb\n'
bad 'line 2: a backslash is followed by' 'a\t1\nb\\q\t2\n'
bad 'line 1: a backslash' 'a\t\\'
bad 'line 1: .*key' "$(printf 'k%.0s' $(seq 4000))\\tv\\n"
printf 'b\t1\na\t2\n' > "$scratch/unsorted"
check_fails 1 'line 2: .*sort' "bulk wants order" sh -c "$FIRN kv $small $scratch/bad load --tree=u --bulk < $scratch/unsorted"
check "nothing is there after it" prints '^0$' kv "$scratch/bad" scan --tree=u --count
check_fails 1 "has rows already" "bulk wants an empty tree" sh -c "$FIRN kv $small $db load --bulk < $scratch/some"

# A bad command line touches nothing.
check_fails 2 'which directory' "no words" $FIRN kv
check_fails 2 'what shall be done' "no action" $FIRN kv "$scratch/new.db"
check_fails 2 'did you mean scan' "an unknown action" $FIRN kv "$scratch/new.db" scna
check_fails 2 'one word too many' "a key for scan" $FIRN kv "$scratch/new.db" scan key
check_fails 2 '--bulk is for load' "an option of another action" $FIRN kv "$scratch/new.db" scan --bulk
check_fails 2 'needs --bulk' "a fill factor without --bulk" $FIRN kv "$scratch/new.db" load --fill-factor=70
check_fails 2 'no meaning' "--bulk by threads" $FIRN kv "$scratch/new.db" load --bulk --threads=2
check_fails 2 'which tree' "drop without a name" $FIRN kv "$scratch/new.db" drop
check_fails 2 'did you mean --buffer-pool-size' "an unknown option" $FIRN kv --bufer-pool-size=1G "$scratch/new.db" load
check_fails 2 'out of range' "a pool that is too small" $FIRN kv --buffer-pool-size=1K "$scratch/new.db" load
check_fails 2 'no class of files "tabel".*did you mean table' "an unknown class" $FIRN kv --device=tabel=nvme "$scratch/new.db" load
check_fails 2 'did you mean nvme' "an unknown model" $FIRN kv --device=nvm "$scratch/new.db" load
check_fails 2 'table has two devices' "two devices for a class" $FIRN kv --device=table=nvme,table=ssd-sata "$scratch/new.db" load
check "nothing was made" test ! -e "$scratch/new.db"
check_fails 1 'no such directory' "get where nothing is" $FIRN kv "$scratch/new.db" get a
check_fails 1 'standard output' "a full disk" sh -c "$FIRN kv $small $scratch/modelled scan > /dev/full"
check "help is there" prints 'load\|get' $FIRN kv --help

done_testing
