#!/usr/bin/env bash
# firn check of files as they lie there: with --offline, where nothing opens, where not all can be looked at; whatever is wrong with
# one file, the others are looked at too, and nothing is changed.
. "$(dirname "$0")/../lib.sh"

small="--buffer-pool-size=16M --log-file-size=4M --buffer-pool-load-at-startup=off"
for i in $(seq 2000); do printf 'key-%06d\tvalue of the row %d, some bytes longer than its key\n' "$i" "$i"; done > "$scratch/rows"
$FIRN kv $small "$scratch/good" load < "$scratch/rows" > "$scratch/log" 2>&1
$FIRN kv $small "$scratch/good" load --tree=other < "$scratch/rows" >> "$scratch/log" 2>&1
$FIRN kv $small "$scratch/placed" load --redo-dir=redo --tables-dir=tables < "$scratch/rows" >> "$scratch/log" 2>&1
$FIRN kv $small "$scratch/foreign" load < "$scratch/rows" >> "$scratch/log" 2>&1
bad=$scratch/bad

copy() { # [NAME]: a fresh copy of an environment, to be damaged
    rm -rf "$bad"
    cp -r "$scratch/${1:-good}" "$bad"
}
sums() { # DIR
    (cd "$1" && find . -type f ! -name firn.lock -exec sha256sum {} + | sort)
}
# The check of $bad ends with STATUS, says each TEXT, and changes nothing.
finds() { # STATUS NAME TEXT...
    local wanted=$1 name=$2 text said=0
    shift 2
    sums "$bad" > "$scratch/before"
    $checker "$bad" > "$scratch/said" 2>&1
    local status=$?
    sums "$bad" > "$scratch/after"
    for text in "$@"; do
        grep -qE -- "$text" "$scratch/said" || { said=1 && echo "(no match for: $text)" >> "$scratch/said"; }
    done
    [ $status = "$wanted" ] || echo "(exit status $status instead of $wanted)" >> "$scratch/said"
    report_check $((said != 0 || status != wanted)) "$name" "$scratch/said"
    check "  and changes nothing" diff "$scratch/before" "$scratch/after"
}
says() { # EXPRESSION: so says --json of $bad
    $checker --json "$bad" 2> /dev/null | jq -e "$1"
}
flip() { # FILE OFFSET: another byte there
    python3 - "$1" "$2" << 'PYTHON'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2]))
    byte = f.read(1)
    f.seek(int(sys.argv[2]))
    f.write(bytes([byte[0] ^ 0x10]))
PYTHON
}
nothing_wrong='^[0-9]+ files, [0-9]+ pages: nothing wrong in what was looked at'

# ---- --offline ---------------------------------------------------------------------------------------

checker="$FIRN check $small --offline"
copy
finds 0 "--offline" 'not looked at: the trees .* because --offline was given' "$nothing_wrong\$"
check "it says so as JSON" says '.passed and .closed and (.complete | not) and .trees == 0 and .pages > 20 and .files >= 6 and (.trees_not_walked | test("offline"))'
flip "$bad/main.firn" $((3 * 16384 + 500))
flip "$bad/other.firn" $((4 * 16384 + 500))
finds 1 "damage is found offline" 'damage: page 3 of .*bad/main.firn' 'damage: page 4 of .*bad/other.firn' '2 damages' 'has 2 problems'

# One that was killed: its log is left to be repeated.
mkfifo "$scratch/feed"
copy
$FIRN kv $small "$bad" load --ack --commit-every=10 < "$scratch/feed" > "$scratch/acks" 2>&1 &
loader=$!
exec 9> "$scratch/feed"
for i in $(seq 100); do printf 'late-%04d\t%d\n' "$i" "$i"; done >&9
for _ in $(seq 600); do
    [ "$(wc -l < "$scratch/acks")" -ge 100 ] && break
    sleep 0.05
done
kill -9 "$loader"
wait "$loader" 2> /dev/null
exec 9>&-
rm -f "$bad/firn.lock"
mv "$bad" "$scratch/killed"
copy killed
finds 0 "one that was killed" "$nothing_wrong\$"
check "it says that it was not closed" says '.passed and (.closed | not)'
cp "$scratch/foreign/main.firn" "$bad/alien.firn"
checker="$FIRN check $small"
finds 1 "with damage it is not recovered" 'damage: .*bad/alien.firn is a tablespace of another environment' 'the environment was not closed, and is not recovered while there is damage'
copy killed
check "without any it is" sh -c "$checker $bad | grep -E '4100 rows: everything is right'"

# ---- Not all can be looked at: exit status 3 -----------------------------------------------------------

checker="unprivileged $FIRN check $small"
copy
chmod 000 "$bad/other.firn"
$checker "$bad" > "$scratch/said" 2> "$scratch/log"
check "a file that may not be read: exit status 3" test $? = 3
check "it is named" grep -qE 'unseen: cannot open .*bad/other.firn: Permission denied' "$scratch/said"
check "the verdict says what is missing" grep -qE 'not all of the environment in .*bad was looked at' "$scratch/log"
check "as JSON" says '.passed and (.complete | not) and (.findings | map(.severity == "unseen" and (.file // "" | test("other.firn$"))) | any)'
flip "$bad/main.firn" $((3 * 16384 + 500))
$checker "$bad" > "$scratch/said" 2>&1
check "with damage beside it: 1" test $? = 1
check "both are told" sh -c "grep -q 'unseen: .*other.firn' $scratch/said && grep -q 'damage: page 3 of .*main.firn' $scratch/said"
chmod 600 "$bad/other.firn"

# ---- Strays ------------------------------------------------------------------------------------------

checker="$FIRN check $small"
copy
echo "mine" > "$bad/notes.txt"
mkdir "$bad/attic"
finds 0 "files of others are noted" 'note: .*bad/notes.txt is no file of the environment: it is left alone' 'note: .*bad/attic is no file' 'everything is right$'
cp "$bad/firn_redo.0" "$bad/firn.redo"
finds 0 "names of ours are warned of" 'warning: .*bad/firn.redo has the name of a file of an environment, but this one has none' 'everything is right, 1 warning$'
check "as JSON" says '.passed and .warnings == 1 and (.findings | map(.severity == "note") | any)'
copy placed
cp "$bad/tables/main.firn" "$bad/main.firn"
cp "$bad/redo/firn_redo.0" "$bad/tables/firn_redo.0"
finds 1 "files in the wrong directory" 'damage: .*bad/main.firn' 'warning: .*bad/tables/firn_redo.0 has the name'
copy
cp "$bad/main.firn" "$bad/copy.firn"
finds 1 "a copy of a tablespace" 'damage: .*bad/copy.firn was made as main.firn'
copy
cp "$scratch/foreign/main.firn" "$bad/main.firn"
finds 1 "a tablespace of another environment" 'damage: .*bad/main.firn is a tablespace of another environment'
copy
mv "$bad/main.firn" "$scratch/moved" && mv "$bad/other.firn" "$bad/main.firn" && mv "$scratch/moved" "$bad/other.firn"
finds 1 "two that were swapped" 'damage: .*bad/main.firn was made as other.firn' 'damage: .*bad/other.firn was made as main.firn'

# ---- The log -----------------------------------------------------------------------------------------

# Each damage of the log, with a damaged page beside it: both are told.
for what in missing truncated noise empty foreign swapped header; do
    copy
    flip "$bad/main.firn" $((3 * 16384 + 500))
    case $what in
    missing) rm "$bad/firn_redo.1" ;;
    truncated) truncate -s 1M "$bad/firn_redo.1" ;;
    noise) head -c 4M /dev/urandom > "$bad/firn_redo.1" ;;
    empty) : > "$bad/firn_redo.1" ;;
    foreign) cp "$scratch/foreign/firn_redo.1" "$bad/firn_redo.1" ;;
    swapped) mv "$bad/firn_redo.0" "$bad/x" && mv "$bad/firn_redo.1" "$bad/firn_redo.0" && mv "$bad/x" "$bad/firn_redo.1" ;;
    header) flip "$bad/firn_redo.1" 40 ;;
    esac
    finds 1 "a log file: $what" 'damage: .*bad/firn_redo.1' 'damage: page 3 of .*bad/main.firn'
done
copy
rm "$bad"/firn_redo.*
finds 1 "no log" 'damage: .*bad/firn_redo.0 is missing, and no other file of the log is there'

# Copies of the checkpoint: one is enough.
for number in 1 2; do
    copy
    flip "$bad/firn_redo.0" $((4096 * number + 30))
    finds 0 "copy $number of the checkpoint is damaged" "warning: copy $number of the checkpoint in .*bad/firn_redo.0 is damaged" 'everything is right, 1 warning$'
    copy
    dd if=/dev/zero of="$bad/firn_redo.0" bs=4096 seek=$number count=1 conv=notrunc 2> /dev/null
    finds 0 "copy $number of the checkpoint is missing" "warning: copy $number of the checkpoint in .*bad/firn_redo.0 is damaged" 'everything is right, 1 warning$'
done
check "it opens" sh -c "$FIRN kv $small $bad scan | cmp - $scratch/rows"
check "and then both are whole" sh -c "$checker $bad | grep -E 'everything is right$'"
copy
dd if=/dev/zero of="$bad/firn_redo.0" bs=4096 seek=1 count=2 conv=notrunc 2> /dev/null
flip "$bad/main.firn" $((3 * 16384 + 500))
finds 1 "no checkpoint" 'damage: both copies of the checkpoint in .*bad/firn_redo.0 are damaged' 'damage: page 3 of .*bad/main.firn'

# ---- Labels ------------------------------------------------------------------------------------------

copy
rm "$bad/firn.env"
flip "$bad/main.firn" $((3 * 16384 + 500))
finds 1 "firn.env is lost" 'damage: .*bad/firn.env is missing, without which nothing opens' 'unseen: directories other than this one' 'damage: page 3 of .*bad/main.firn'
check "as JSON" says '(.passed | not) and (.complete | not) and .pages > 20'
copy
flip "$bad/firn.env" 30
finds 1 "firn.env is damaged" 'damage: .*bad/firn.env is damaged: its checksum does not fit' "^[0-9]+ files, [0-9]+ pages"
copy placed
rm "$bad"/firn.env "$bad"/*.firn
finds 1 "nothing says what the pages are like" 'firn.env is missing' 'no other file was looked at'
copy placed
rm "$bad/tables/firn.place"
finds 1 "firn.place is lost" 'damage: .*bad/tables, the tables_dir of the environment, is missing or is not the one'
copy placed
mv "$bad/tables" "$scratch/elsewhere"
finds 1 "a directory is lost" 'damage: .*bad/tables, the tables_dir of the environment, is missing' '^[0-9]+ files, [0-9]+ pages: 1 damage'
rm -rf "$scratch/elsewhere"

done_testing
