#!/usr/bin/env bash
# firn backup and firn restore: what comes back is what was there, and every wrong backup is named.
. "$(dirname "$0")/../lib.sh"

small="--buffer-pool-size=16M --log-file-size=4M --buffer-pool-load-at-startup=off"
pool="--buffer-pool-size=16M --buffer-pool-load-at-startup=off"
db=$scratch/db
for i in $(seq 6000); do printf 'key-%06d\tvalue of the row %d, some bytes longer than its key\n' "$i" "$i"; done > "$scratch/rows"
(printf 'large\t'; head -c 300000 /dev/zero | tr '\0' x; echo) >> "$scratch/rows"
$FIRN kv $small "$db" load < "$scratch/rows" > "$scratch/log" 2>&1
$FIRN kv $small "$db" load --tree=other --shared < "$scratch/rows" >> "$scratch/log" 2>&1

prints() { # TEXT COMMAND...
    local text=$1
    shift
    "$@" | tee "$scratch/said" | grep -qE -- "$text"
}
same_rows() { # DIR
    $FIRN kv $pool "$1" scan | cmp - "$scratch/rows" && $FIRN kv $pool "$1" scan --tree=other | cmp - "$scratch/rows"
}
files_of() { # DIR
    (cd "$1" && find . -type f ! -name firn.lock -exec sha256sum {} + | sort)
}

# There and back.
before=$(files_of "$db")
check "an environment that was closed is backed up" prints '^[0-9]+ tablespaces, .* of log in .*: backed up to LSN [0-9]+$' $FIRN backup $pool "$db" "$scratch/backup"
check "and not changed" test "$before" = "$(files_of "$db")"
check "the backup is right" prints '^[0-9]+ tablespaces, .*: everything is right$' $FIRN backup --verify "$scratch/backup"
backup=$(files_of "$scratch/backup")
check "it is restored" prints '^[0-9]+ tablespaces, .*: restored as of 20.*, LSN [0-9]+$' $FIRN restore $pool "$scratch/backup" "$scratch/restored"
check "with all rows" same_rows "$scratch/restored"
check "and passes the check" prints 'everything is right' $FIRN check $pool "$scratch/restored"
check "the backup is as it was" test "$backup" = "$(files_of "$scratch/backup")"

# Names that others use, and figures.
check "--target-dir, --parallel and JSON" sh -c "$FIRN backup $pool --target-dir=$scratch/backup2 --parallel=4 --throttle=1000 --json $db > $scratch/json"
check "it has the figures" jq -e '.tablespaces >= 2 and .bytes > 1000000 and .end_lsn >= .checkpoint_lsn and .page_size_bytes == 16384 and (.ended | test("^20")) and .seconds > 0' "$scratch/json"
check "--verify --json" sh -c "$FIRN backup --verify --json --target-dir=$scratch/backup2 > $scratch/json"
check "it has the verdict" jq -e '.passed and .findings == []' "$scratch/json"
check "restored by option names, to directories of their own" sh -c "$FIRN restore $pool --target-dir=$scratch/backup2 --datadir=$scratch/apart --tables-dir=tables --redo-dir=$scratch/apart-log --json > $scratch/json"
check "where they are" test -e "$scratch/apart/tables/main.firn" -a -e "$scratch/apart-log/firn_redo.0"
check "it has all rows" same_rows "$scratch/apart"
check "the figures name both" jq -e '(.directory | test("apart$")) and (.backup | test("backup2$")) and .records_applied >= 0' "$scratch/json"

# A process that was killed left log to be repeated.
mkfifo "$scratch/pipe"
$FIRN kv $small "$scratch/killed" load --ack --commit-every=100 < "$scratch/pipe" > "$scratch/acks" 2> "$scratch/log" &
loader=$!
exec 3> "$scratch/pipe"
cat "$scratch/rows" >&3
for i in $(seq 200); do [ "$(wc -l < "$scratch/acks")" -ge 6000 ] && break; sleep 0.1; done
kill -9 "$loader"
wait "$loader" 2> /dev/null
exec 3>&-
check "one that was killed is recovered and backed up" prints 'backed up' $FIRN backup $pool "$scratch/killed" "$scratch/backup3"
check "and restored" prints 'restored' $FIRN restore $pool "$scratch/backup3" "$scratch/revived"
check "what was acknowledged is there" sh -c "$FIRN kv $pool $scratch/revived scan | cut -f1 | sort > $scratch/there; cut -f1 $scratch/acks | sort | comm -23 - $scratch/there | test \$(wc -l) = 0"

# Damage.
damage() { # FILE OFFSET: another byte there, in a fresh copy
    rm -rf "$scratch/bad"
    cp -r "$scratch/backup" "$scratch/bad"
    python3 - "$scratch/bad/$1" "$2" << 'PYTHON'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2]))
    byte = f.read(1)
    f.seek(int(sys.argv[2]))
    f.write(bytes([byte[0] ^ 0x10]))
PYTHON
}
finds() { # FILE OFFSET
    damage "$1" "$2"
    ! $FIRN backup --verify "$scratch/bad" > "$scratch/said" 2>&1 && grep -q "damage: .*bad/$1" "$scratch/said" &&
        ! $FIRN restore $pool "$scratch/bad" "$scratch/never" > "$scratch/said" 2>&1 && ! test -e "$scratch/never/firn.env"
}
check "a byte in a tablespace" finds main.firn 300000
check "in the last byte of one" finds main.firn $(($(stat -c %s "$scratch/backup/main.firn") - 1))
check "in the checksums" finds firn.sums 20
check "in the list of files" finds firn.backup 200
damage main.firn 300000
check "damage as JSON" sh -c "! $FIRN backup --verify --json $scratch/bad > $scratch/json 2> /dev/null"
check "it names file and offset" jq -e '(.passed | not) and (.findings | length == 1) and .findings[0].offset == 0 and (.findings[0].file | test("main.firn$"))' "$scratch/json"
check_fails 1 'has 1 damage' "the verdict is on standard error" $FIRN backup --verify "$scratch/bad"
check_fails 1 'main.firn is damaged .*nothing was restored' "nothing is restored of it" $FIRN restore $pool "$scratch/bad" "$scratch/never"
rm "$scratch/bad/main.firn"
check_fails 1 '1 damage' "a file that is missing" $FIRN backup --verify "$scratch/bad"
rm "$scratch/bad/firn.backup"
check_fails 1 'no firn.backup' "no backup" $FIRN restore $pool "$scratch/bad" "$scratch/never"
printf 'x' > "$scratch/bad/firn.backup.new"
check_fails 1 'was not finished' "one that was not finished" $FIRN restore $pool "$scratch/bad" "$scratch/never"
check_fails 1 'not finished' "is not gone on with" $FIRN backup $pool "$db" "$scratch/bad"

# A full disk: what was copied goes.
full() {
    ! (ulimit -f 256 && trap '' XFSZ && $FIRN backup $pool "$db" "$scratch/full") > "$scratch/said" 2>&1 && ! test -e "$scratch/full"
}
check "a target that takes no more is left empty" full

# Bad words.
check_fails 1 'not empty' "a target with something in it" $FIRN backup $pool "$db" "$scratch/backup"
check_fails 1 'there is an environment' "restored over an environment" $FIRN restore $pool "$scratch/backup" "$scratch/restored"
mkdir "$scratch/letters" && touch "$scratch/letters/one"
check_fails 1 'not empty \(it has one\)' "restored over something else" $FIRN restore $pool "$scratch/backup" "$scratch/letters"
check_fails 1 'no firn.env' "no environment" $FIRN backup $pool "$scratch/letters" "$scratch/backup9"
check_fails 2 'which environment' "no words" $FIRN backup
check_fails 2 'where to' "one word" $FIRN backup "$db"
check_fails 2 'which backup' "nothing to verify" $FIRN backup --verify
check_fails 2 'what is "more" for' "a word too much" $FIRN backup "$db" "$scratch/x" more
check_fails 2 'which backup' "nothing to restore" $FIRN restore
check_fails 2 'restore where to' "nowhere to restore to" $FIRN restore "$scratch/backup"
check_fails 2 'page-size' "another page size" $FIRN restore --page-size=4K "$scratch/backup" "$scratch/x"
check_fails 1 'standard output' "a full standard output" sh -c "$FIRN backup --verify $scratch/backup > /dev/full"
done_testing
