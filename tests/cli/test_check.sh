#!/usr/bin/env bash
# firn check: nothing wrong in what is right, and every kind of damage named by file and page.
. "$(dirname "$0")/../lib.sh"

small="--buffer-pool-size=16M --log-file-size=4M --buffer-pool-load-at-startup=off"
for i in $(seq 4000); do printf 'key-%06d\tvalue of the row %d, some bytes longer than its key\n' "$i" "$i"; done > "$scratch/rows"
(printf 'large\t'; head -c 100000 /dev/zero | tr '\0' x; echo) >> "$scratch/rows"
$FIRN kv $small "$scratch/good" load < "$scratch/rows" > "$scratch/log" 2>&1
$FIRN kv $small "$scratch/good" load --tree=other --shared < "$scratch/rows" >> "$scratch/log" 2>&1

prints() { # TEXT COMMAND...
    local text=$1
    shift
    "$@" | tee "$scratch/said" | grep -qE -- "$text"
}
damage() { # FILE OFFSET: another byte there, in a fresh copy
    rm -rf "$scratch/bad"
    cp -r "$scratch/good" "$scratch/bad"
    python3 - "$scratch/bad/$1" "$2" << 'PYTHON'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2]))
    byte = f.read(1)
    f.seek(int(sys.argv[2]))
    f.write(bytes([byte[0] ^ 0x10]))
PYTHON
}
names() { # TEXT: the check of the damaged copy fails and says so, wherever it is told
    ! $FIRN check $small "$scratch/bad" > "$scratch/said" 2>&1 && grep -qE -- "$1" "$scratch/said"
}

check "everything is right" prints '^4 tablespaces, [0-9]+ pages, 2 trees, 8002 rows: everything is right$' $FIRN check $small "$scratch/good"
check "by any number of threads" prints 'everything is right' $FIRN check $small --threads=16 "$scratch/good"
check "--json" sh -c "$FIRN check $small --json $scratch/good > $scratch/json"
check "it has the figures" jq -e '.passed and .tablespaces == 4 and .trees == 2 and .rows == 8002 and .pages > 20 and .findings == [] and .complete and .closed' "$scratch/json"

# A byte in each page of a tablespace: whatever the page is, it is named.
pages=$(($(stat -c %s "$scratch/good/main.firn") / 16384))
for page in $(seq 0 $((pages - 1))); do
    damage main.firn $((page * 16384 + 24 + page * 97 % 16000))
    check "damage in page $page is named" names "$([ "$page" = 0 ] || echo "page $page of .*")bad/main.firn"
done
damage system.firn $((3 * 16384 + 5000))
check "damage in the system tablespace is named" names 'page 3 of .*bad/system.firn'
damage main.firn 50000
check "as JSON too" sh -c "! $FIRN check $small --json $scratch/bad > $scratch/json 2> /dev/null"
check "it names file and page" jq -e '(.passed | not) and .damages > 0 and (.findings | map(.severity == "damage" and .page == 3 and .offset == 49152 and (.file | test("bad/main.firn$")) and (.text | test("page 3 of .*main.firn"))) | any)' "$scratch/json"
check_fails 1 'problem' "the verdict is on standard error" $FIRN check $small "$scratch/bad"

# Pages in each other's places, and of another tablespace.
rm -rf "$scratch/bad" && cp -r "$scratch/good" "$scratch/bad"
dd if="$scratch/good/main.firn" of="$scratch/bad/main.firn" bs=16384 skip=4 seek=5 count=1 conv=notrunc 2> /dev/null
check "a page in another one's place is named" names 'page 5 of .*main.firn.*another page'
rm -rf "$scratch/bad" && cp -r "$scratch/good" "$scratch/bad"
dd if=/dev/zero of="$scratch/bad/main.firn" bs=16384 seek=5 count=1 conv=notrunc 2> /dev/null
check "a page of zeros is named" names 'page 5 of .*main.firn.*(never|zeros)'
rm -rf "$scratch/bad" && cp -r "$scratch/good" "$scratch/bad"
truncate -s $(((pages - 1) * 16384)) "$scratch/bad/main.firn"
check "a truncated file is named" names 'bad/main.firn'

# Nothing is changed by looking.
before=$(cd "$scratch/good" && sha256sum main.firn system.firn firn.env)
$FIRN check $small "$scratch/good" > /dev/null
check "a check changes no file" test "$before" = "$(cd "$scratch/good" && sha256sum main.firn system.firn firn.env)"

check_fails 2 'which directory' "no directory" $FIRN check
check_fails 2 'second one' "two directories" $FIRN check "$scratch/good" "$scratch/bad"
check_fails 2 'no option --jsno' "an unknown option" $FIRN check --jsno "$scratch/good"
check_fails 1 'no such directory' "no such directory" $FIRN check "$scratch/none"
check_fails 1 'no firn.env' "no environment" $FIRN check "$scratch"
check_fails 1 'standard output' "a full disk" sh -c "$FIRN check $small $scratch/good > /dev/full"
check "help is there" prints 'every page' $FIRN check --help
done_testing
