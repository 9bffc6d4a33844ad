#!/usr/bin/env bash
# firn stat: what it prints agrees with what was put there.
. "$(dirname "$0")/../lib.sh"

small="--buffer-pool-size=16M"
for i in $(seq 5000); do printf 'key-%06d\tvalue %d\n' "$i" "$i"; done > "$scratch/rows"
(printf 'large\t'; head -c 100000 /dev/zero | tr '\0' x; echo) >> "$scratch/rows"
prints() { # TEXT COMMAND...
    local text=$1
    shift
    "$@" | tee "$scratch/said" | grep -qE -- "$text"
}
make() { # OPTION...
    $FIRN kv $small "$scratch/db" load "$@" < "$scratch/rows" > /dev/null
}
check "an environment with two trees" make --page-size=8K --log-file-size=5M --log-files=3 --redo-dir=redo
check "a shared one" make --tree=shared --shared

check "stat" sh -c "$FIRN stat $small $scratch/db > $scratch/text"
for text in '^Environment .*db, pages of 8 KiB' '^  redo  *.*db/redo \(' '^  table  *.*db \(' \
    '^main  *table  *[0-9]+' '^system  *system ' '^main  *own  *2  *5001 ' '^shared  *system  *2  *5001 ' \
    '^Buffer pool, 16 MiB' 'hit ratio' 'pages made young' '^Log, 3 files of 5 MiB' 'checkpoint age'; do
    check "it has: $text" grep -qE "$text" "$scratch/text"
done
check "no line is wider than a terminal" sh -c "! grep -nE '^.{101}' $scratch/text"

check "--json" sh -c "$FIRN stat $small --json $scratch/db > $scratch/json"
check "it has files" jq -e '.page_size_bytes == 8192 and (.tablespaces | length) == 4 and .classes.redo.directory == .directory + "/redo"
    and (.tablespaces | map(select(.name == "main")) | .[0].size_bytes == .[0].pages * 8192 and .[0].pages_used < .[0].pages)' "$scratch/json"
check "sizes are those of the files" test "$(jq '.tablespaces[] | select(.name == "main").size_bytes' "$scratch/json")" = "$(stat -c %s "$scratch/db/main.firn")"
check "it has trees" jq -e '[.trees[].name] == ["main", "shared"] and all(.trees[]; .rows == 5001 and .height == 2 and .blob_pages >= 12
    and .fill_percent > 40 and .fill_percent <= 100 and .jump_percent >= 0 and (.damaged | not) and .value_bytes > 100000)
    and .trees[1].shared and (.trees[0].shared | not)' "$scratch/json"
check "it has the pool" jq -e '.buffer_pool | .size_bytes == 16777216 and .pages_read > 0 and .pages_dirty == 0
    and .pages_total == .pages_free + .pages_data and .hit_percent > 0' "$scratch/json"
check "it has the log" jq -e '.log | .files == 3 and .file_size_bytes == 5242880 and .lsn >= .durable_lsn
    and .durable_lsn >= .checkpoint_lsn and .capacity_bytes > 5242880 and .checkpoint_age_bytes < 10000' "$scratch/json"

check "--quick walks no tree" prints '^main  *own  *not walked' $FIRN stat $small --quick "$scratch/db"
check "--quick as JSON" sh -c "$FIRN stat $small --quick --json $scratch/db | jq -e '.trees[0] | .name == \"main\" and (has(\"rows\") | not)'"

printf 'x' | dd of="$scratch/db/main.firn" bs=1 seek=$((8192 * 6 + 4000)) conv=notrunc 2> /dev/null
check_fails 1 'tree main is damaged.*firn check' "a damaged tree" $FIRN stat $small "$scratch/db"
check_fails 2 'which directory' "no directory" $FIRN stat
check_fails 2 'second one' "two directories" $FIRN stat a b
check_fails 2 'no meaning with --quick' "threads that walk nothing" $FIRN stat --quick --threads=2 "$scratch/db"
check_fails 1 'no such directory' "no such directory" $FIRN stat "$scratch/none"
check_fails 1 'standard output' "a full disk" sh -c "$FIRN stat $small --quick $scratch/db > /dev/full"
check "help is there" prints 'fragmentation' $FIRN stat --help
done_testing
