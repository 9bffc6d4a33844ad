#!/usr/bin/env bash
# What an environment's commands refuse: a sentence that says what to do, a status other than 0, and no file changed.
. "$(dirname "$0")/../lib.sh"

small="--buffer-pool-size=16M --log-file-size=4M --buffer-pool-load-at-startup=off"
kv="$FIRN kv --buffer-pool-size=16M"
good=$scratch/good
for i in $(seq 300); do printf 'key-%04d\tvalue %d\n' "$i" "$i"; done > "$scratch/rows"
$FIRN kv $small "$good" load --redo-dir=redo --tables-dir="$good/tables" < "$scratch/rows" > "$scratch/log" 2>&1
$FIRN kv $small "$good" load --tree=second < "$scratch/rows" >> "$scratch/log" 2>&1
$FIRN kv $small "$scratch/foreign" load --redo-dir=redo --tables-dir=tables < "$scratch/rows" >> "$scratch/log" 2>&1
$FIRN kv $small "$scratch/foreign" load --tree=second < "$scratch/rows" >> "$scratch/log" 2>&1
check "two environments" sh -c "$kv $good get key-0001 && $kv $scratch/foreign get key-0300"

bad=$scratch/bad
copy() { # a fresh copy of the good one, to be damaged; its directories are named relative to it
    rm -rf "$bad"
    cp -r "$good" "$bad"
    relabel "$bad"
}
relabel() { # DIR: its firn.env names the directories in it
    sed -i "s|^tables_dir .*|tables_dir tables|" "$1/firn.env"
    fix_checksum "$1/firn.env"
}
fix_checksum() { # FILE: as the program tells a person who edited it
    local said
    said=$($FIRN stat --quick "$(dirname "$1")" 2>&1)
    sed -i "s|^crc32c .*|$(grep -oE 'crc32c [0-9a-f]{8}' <<< "$said" | tail -1)|" "$1"
}
# Names, kinds, sizes and bytes of all that lies there, but for the lock.
sums() { # DIR
    (cd "$1" && find . ! -name firn.lock -printf '%y %s %p\n' | sort && find . -type f ! -name firn.lock -exec sha256sum {} + | sort)
}
refuses() { # TEXT NAME [COMMAND...]: says TEXT, and changes nothing in $bad
    local text=$1 name=$2
    shift 2
    [ $# != 0 ] || set -- $kv "$bad" scan
    sums "$bad" > "$scratch/before"
    check_fails 1 "$text" "$name" "$@"
    sums "$bad" > "$scratch/after"
    check "  and changes nothing" diff "$scratch/before" "$scratch/after"
}
poke() { # FILE OFFSET BYTES: write them there
    printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
}

copy
check "a copy with edited paths opens" $kv "$bad" get key-0001

# firn.env
copy
rm "$bad/firn.env"
refuses 'has no firn.env' "no firn.env"
refuses 'belongs to no environment.*firn.env' "no firn.env, and load makes none over what is there" sh -c "$kv $bad load < $scratch/rows"
copy
sed -i 's/page_size 16384/page_size 32768/' "$bad/firn.env"
refuses 'firn.env is damaged.*crc32c [0-9a-f]{8}' "an edited firn.env"
copy
: > "$bad/firn.env"
refuses 'firn.env does not begin with "firn-environment' "an empty firn.env"
copy
head -c 60 "$good/firn.env" > "$bad/firn.env"
refuses 'firn.env is (truncated|damaged)' "a truncated firn.env"
copy
sed -i 's/^firn-environment 1/firn-environment 2/' "$bad/firn.env"
refuses 'firn.env has version 2.*use the newer firn' "a newer firn.env"
copy
printf 'firn-environment 1\nid 00000000000000000000000000000000\n' > "$bad/firn.env"
refuses 'truncated' "firn.env without an end"
copy
sed -i 's/^page_size .*/page_size 5000/' "$bad/firn.env" && fix_checksum "$bad/firn.env"
refuses 'a line "page_size"' "a page size that is none"
copy
sed -i 's/^page_size .*/&\nwhat is-this/' "$bad/firn.env" && fix_checksum "$bad/firn.env"
refuses 'a line "what" that this firn does not understand' "a line that nobody knows"

# Directories of classes
copy
mv "$bad/tables" "$bad/elsewhere"
refuses 'bad/tables, the tables_dir of the environment, is missing' "a directory that is missing"
mkdir "$bad/tables"
refuses 'bad/tables, the tables_dir.*mount' "an empty directory in its place"
copy
mv "$bad/tables" "$bad/x" && mv "$bad/redo" "$bad/tables" && mv "$bad/x" "$bad/redo"
refuses 'is the redo_dir of this environment, not the tables_dir' "directories that have been exchanged"
copy
rm -r "$bad/redo" && cp -r "$scratch/foreign/redo" "$bad/redo"
refuses 'belongs to another environment' "a directory of another environment"
copy
poke "$bad/redo/firn.place" 20 x
refuses 'firn.place is damaged' "a damaged firn.place"
copy
refuses 'tables_dir is .*bad/other, but the files are in .*bad/tables.*leave the option out' "an option in conflict with the files" $kv --tables-dir=other "$bad" scan
refuses 'undo_dir is .*' "a class that has no directory of its own" $kv --undo-dir=undo "$bad" scan
refuses 'page_size is 8192, but the environment .* was made with 16384' "another page size" $kv --page-size=8K "$bad" scan

# Tablespaces
copy
rm "$bad/tables/second.firn"
refuses 'tables/second.firn, the file of tree second, is missing: put it back' "a tablespace that is missing"
cp "$good/tables/second.firn" "$bad/tables/second.firn"
check "it opens when it is put back" $kv "$bad" get --tree=second key-0001
copy
rm "$bad/system.firn"
refuses 'system.firn' "no system tablespace"
copy
cp "$scratch/foreign/tables/main.firn" "$bad/tables/main.firn"
refuses 'main.firn.*another environment' "a tablespace of another environment"
copy
mv "$bad/tables/main.firn" "$bad/x" && mv "$bad/tables/second.firn" "$bad/tables/main.firn" && mv "$bad/x" "$bad/tables/second.firn"
refuses '(main|second).firn' "tablespaces that have been swapped"
copy
cp "$bad/tables/main.firn" "$bad/tables/copy.firn"
refuses 'copy.firn' "a copy of a tablespace beside it"
copy
poke "$bad/tables/main.firn" 24 'WRONGMAG'
refuses 'main.firn' "a tablespace with a wrong magic"
copy
: > "$bad/tables/main.firn"
refuses 'main.firn' "an empty tablespace"
copy
head -c 1000 "$good/tables/main.firn" > "$bad/tables/main.firn"
refuses 'main.firn' "a truncated tablespace"
copy
head -c 70000 /dev/urandom > "$bad/tables/noise.firn"
refuses 'noise.firn' "a file that only has the name of a tablespace"

# The log
copy
rm "$bad/redo/firn_redo.1"
refuses 'firn_redo.1 is missing' "a log file that is missing"
copy
rm "$bad/redo/firn_redo.0"
refuses 'firn_redo.0 is missing' "the first log file is missing"
copy
cp "$scratch/foreign/redo/firn_redo.0" "$bad/redo/firn_redo.0"
refuses 'firn_redo.0.*another environment' "a log of another environment"
copy
mv "$bad/redo/firn_redo.0" "$bad/x" && mv "$bad/redo/firn_redo.1" "$bad/redo/firn_redo.0" && mv "$bad/x" "$bad/redo/firn_redo.1"
refuses 'swapped' "log files that have been swapped"
copy
truncate -s 1M "$bad/redo/firn_redo.1"
refuses 'firn_redo.1' "a truncated log file"
copy
head -c 4M /dev/urandom > "$bad/redo/firn_redo.0"
refuses 'firn_redo.0' "a log file of noise"

# The doublewrite file
copy
printf 'WRNG' | dd of="$bad/firn_doublewrite" conv=notrunc 2> /dev/null
refuses 'firn_doublewrite is no doublewrite file.*put the right file back, or move this one away' "a doublewrite file with a wrong magic"
copy
poke "$bad/firn_doublewrite" 50 x
refuses 'firn_doublewrite is no doublewrite file, or its first block is damaged' "a doublewrite file whose head is damaged"
copy
truncate -s 1M "$bad/firn_doublewrite"
refuses 'firn_doublewrite is truncated: it has 1048576 bytes' "a truncated doublewrite file"
copy
: > "$bad/firn_doublewrite"
refuses 'firn_doublewrite is truncated: it has 0 bytes' "an empty doublewrite file"
copy
cp "$scratch/foreign/firn_doublewrite" "$bad/firn_doublewrite"
refuses 'firn_doublewrite belongs to another environment' "a doublewrite file of another environment"
rm "$bad/firn_doublewrite"
check "moved away it opens, as the sentence says" $kv "$bad" get key-0001

# Options out of range
copy
for option in --log-file-size=1M --log-files=1 --log-files=101 --buffer-pool-size=1K --page-size=2K --flush-log-at-commit=3 \
    --max-dirty-pages-pct=0 --old-blocks-pct=99 --buffer-pool-dump-pct=0 --io-capacity=0 --recovery-threads=65 --log-buffer-size=1M; do
    sums "$bad" > "$scratch/before"
    check_fails 2 'out of range; it goes from' "$option" $FIRN kv "$option" "$bad" scan
    sums "$bad" > "$scratch/after"
    check "  and changes nothing" diff "$scratch/before" "$scratch/after"
done
refuses 'page_size is 12288, but must be' "a page size that is no power of two" $kv --page-size=12K "$bad" scan
refuses 'multiple of 1 MiB' "an odd log file size" $kv --log-file-size=5000000 "$bad" scan
refuses 'io_capacity_max is 100 and io_capacity 200' "capacities that contradict" $kv --io-capacity-max=100 "$bad" scan

# In use, by a process that is named.
copy
mkfifo "$scratch/pipe"
$kv "$bad" load --tree=held < "$scratch/pipe" > /dev/null 2>&1 &
holder=$!
exec 9> "$scratch/pipe"
for _ in $(seq 600); do
    [ -s "$bad/firn.lock" ] && [ -e "$bad/tables/held.firn" ] && break
    sleep 0.05
done
check_fails 1 "bad is in use by process $holder" "a directory in use" $kv "$bad" scan
exec 9>&-
check "its holder is not disturbed" wait "$holder"

# No environment, no directory, no permission, a file instead.
mkdir "$scratch/empty"
check_fails 1 'no environment in .*empty: it has no firn.env' "an empty directory" $kv "$scratch/empty" scan
check "it stays empty" test -z "$(ls -A "$scratch/empty")"
check_fails 1 'no such directory' "no directory" $kv "$scratch/none" scan
check_fails 1 'cannot' "a directory without a parent" sh -c "$kv $scratch/no/such load < $scratch/rows"
touch "$scratch/file"
check_fails 1 'file' "a file in place of the directory" sh -c "$kv $scratch/file load < $scratch/rows"
check "it stays empty too" test ! -s "$scratch/file"
mkdir "$scratch/mine" && printf 'precious' > "$scratch/mine/notes.txt"
check "an environment beside other files" sh -c "$FIRN kv $small $scratch/mine load < $scratch/rows"
check "which stay" test "$(cat "$scratch/mine/notes.txt")" = precious
mkdir "$scratch/closed" && chmod 500 "$scratch/closed"
check_fails 1 'closed: Permission denied; check its owner and mode' "a directory that may not be written" unprivileged sh -c "$kv $scratch/closed load < $scratch/rows"
check "it stays empty as well" test -z "$(ls -A "$scratch/closed")"

# No permission: on one class's directory at a time, of an environment that is there and of one that is to be made.
places=
for class in tables undo system doublewrite redo binlog tmp; do places+=" --$class-dir=$class"; done
$FIRN kv $small "$scratch/placed" load $places < "$scratch/rows" > "$scratch/log" 2>&1
for class in . tables undo system doublewrite redo binlog tmp; do
    for mode in 500 000; do
        rm -rf "$bad"
        cp -r "$scratch/placed" "$bad"
        sums "$bad" > "$scratch/before"
        chmod $mode "$bad/$class"
        check_fails 1 "bad(/$class)?(/firn[.a-z]*)?: Permission denied; check its owner and mode" "mode $mode of $class" unprivileged $kv "$bad" scan
        chmod 700 "$bad/$class"
        sums "$bad" > "$scratch/after"
        check "  and changes nothing" diff "$scratch/before" "$scratch/after"
    done
    [ $class != . ] || continue
    rm -rf "$bad"
    mkdir -p "$bad/$class"
    chmod 500 "$bad/$class"
    check_fails 1 "bad/$class: Permission denied; check its owner and mode" "making one, $class" unprivileged sh -c "$FIRN kv $small $bad load $places < $scratch/rows"
    chmod 700 "$bad/$class"
    check "  and leaves nothing" test "$(find "$bad" -mindepth 1)" = "$bad/$class"
done
copy
chmod 000 "$bad/tables/main.firn"
check_fails 1 'tables/main.firn: Permission denied; check its owner and mode' "a tablespace that may not be read" unprivileged $kv "$bad" scan

# No space: files may not grow beyond a limit that a log does not fit into, and then one that the rows do not.
check_fails 1 'firn_redo|space|large' "no room for the log" sh -c "ulimit -f 2048; trap '' XFSZ; $kv $scratch/full load --log-file-size=16M < $scratch/rows"
check "nothing is left" test ! -e "$scratch/full"
check "so it can be made later" sh -c "$FIRN kv $small $scratch/full load < $scratch/rows"
for i in $(seq 60000); do printf 'more-%06d\t%0120d\n' "$i" "$i"; done > "$scratch/many"
check_fails 1 'space|large|rows were loaded' "no room for the rows" sh -c "ulimit -f 5000; trap '' XFSZ; $kv $scratch/full load < $scratch/many"
check "what was there is there" sh -c "$kv $scratch/full get key-0300"
check "and everything is right" $FIRN check "$scratch/full"

# A log that finds no room for its new size: one that was closed stays as it was, one that was not loses nothing.
copy
limited() { # COMMAND...: no file may grow beyond 8 MiB
    (ulimit -f 8192; trap '' XFSZ; "$@")
}
refuses 'firn_redo.[01].new.*(space|large)' "no room for another log" limited $kv --log-file-size=32M "$bad" scan
check "its files are as they were" test "$(stat -c %s "$bad"/redo/firn_redo.*)" = "$(printf '4194304\n4194304')"
check "and everything is there" sh -c "$kv $bad scan | cmp - $scratch/rows"
mkfifo "$scratch/feed"
$kv "$bad" load --ack --commit-every=10 < "$scratch/feed" > "$scratch/acks" 2>&1 &
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
check_fails 1 'firn_redo.[01].new.*(space|large)' "no room for another log, after a kill" limited $kv --log-file-size=32M "$bad" scan
check "what was acknowledged is there" test "$($kv "$bad" scan --prefix=late- --count 2> /dev/null)" = 100
check "and all of it is right" $FIRN check "$bad"

done_testing
