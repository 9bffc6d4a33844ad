#!/usr/bin/env bash
# firn survey: tiny surveys of the real disk and of a model, an interrupted one, and bad input.
. "$(dirname "$0")/../lib.sh"

small="--size=16M --time=2 --pictures=off"
names() { # of the runs in a result
    python3 -c 'import json, sys; print("\n".join(r["name"] for r in json.load(open(sys.argv[1]))["runs"]))' "$1"
}
no_test_files() { # in a surveyed directory
    ! find "$1" -name 'firn-survey-*' -o -name 'test_file.*' -o -name firn.lock | grep .
}

# The whole of it, tiny.
check "a survey of the disk" sh -c "$FIRN survey $small $scratch/disk > $scratch/summary"
for text in '^Survey of .*disk: 16 MiB in 8 files' '^Synced writes' 'append 4 KiB, 1 thread' '^Random 16 KiB .* 64 *128$' \
    'reads/s by threads' 'writes/s by depth' '^Sequential 1 MiB  *reads' '^Mixed, 16 threads' '^Verdict$' \
    'redo, binary log' 'data files' 'random reads' 'steadiness' "^Report: $scratch/disk/report.html"; do
    check "the summary has: $text" grep -qE "$text" "$scratch/summary"
done
check "no line is wider than a terminal" sh -c "! grep -nE '^.{81}' $scratch/summary | grep -v 'Survey of\|Report:'"
check "37 measurements have names of their own" test "$(names "$scratch/disk/survey.json" | sort -u | wc -l)" = 37
check "the report is there" grep -q '<html' "$scratch/disk/report.html"
check "the test files are gone" no_test_files "$scratch/disk"

# --json, -o and --keep; a kept survey's files serve the next one, under whichever name.
check "--json prints the result" sh -c "$FIRN survey $small --json --keep -o $scratch/out $scratch/kept > $scratch/json"
check "it is the result that was written" python3 - "$scratch/json" "$scratch/out/survey.json" << 'EOF'
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
assert a == b and a["format"] == "firn-result" and len(a["runs"]) == 37
for r in a["runs"]:
    assert r["modelled"] is None and r["summary"]["time_s"] > 0
EOF
check "--keep leaves the files" test -f "$scratch/kept/firn-survey-data/test_file.7"
check "fileio --preset=survey is a survey, here of kept files" sh -c "$FIRN fileio --preset=survey --file-total-size=16M --max-time=2 --dir=$scratch/kept run > $scratch/again"
check "with its options" grep -q '^Survey of .*kept: 16 MiB in 8 files' "$scratch/again"
check "which removes them" no_test_files "$scratch/kept"

# A model, in jumping time: what a bare disk does is known.
check "a survey of a model" sh -c "$FIRN survey --size=16M --time=20 --pictures=off --device=hdd-7200 $scratch/model > $scratch/modelled"
for text in 'modelled hdd-7200' '^Modelled: SATA disk, 7200 rpm' 'Poorly suited' '! modelled  *These are the figures of the model hdd-7200'; do
    check "the summary of a model has: $text" grep -qE "$text" "$scratch/modelled"
done
check "its runs are marked" python3 - "$scratch/model/survey.json" << 'EOF'
import json, sys
assert all(r["modelled"]["device"] == "hdd-7200" for r in json.load(open(sys.argv[1]))["runs"])
EOF

# fileio's name for it.
check_fails 2 'chooses --threads by itself' "a preset with other options" $FIRN fileio --preset=survey --num-threads=4 --dir="$scratch/bad" run
check_fails 2 'say run, or nothing' "a preset with another verb" $FIRN fileio --preset=survey --dir="$scratch/bad" prepare

# Interrupted (by SIGTERM: shells make background jobs ignore Ctrl-C), and a second survey meanwhile.
$FIRN survey --size=16M --time=600 --pictures=off "$scratch/long" > "$scratch/stopped" 2> "$scratch/stopped.err" &
long=$!
for _ in $(seq 600); do
    [ -f "$scratch/long/survey.json" ] && break
    sleep 0.1
done
check_fails 1 'firn.lock|in use|holds' "a second survey of a directory is refused" $FIRN survey $small "$scratch/long"
check "the first one is not disturbed" kill -TERM "$long"
wait "$long"
check "an interrupted survey exits with 1" test $? = 1
check "it says how far it came" grep -qE 'interrupted after [0-9]+ of 37 measurements' "$scratch/stopped.err"
check "it reports what it has" grep -q 'append 4 KiB' "$scratch/stopped"
check "it writes the report" test -f "$scratch/long/report.html"
check "it removes its files" no_test_files "$scratch/long"

# A failure midway: a file vanishes.
$FIRN survey --size=16M --time=20 --pictures=off "$scratch/hurt" > "$scratch/hurt.out" 2> "$scratch/hurt.err" &
hurt=$!
for _ in $(seq 600); do
    [ -f "$scratch/hurt/survey.json" ] && break
    sleep 0.1
done
rm "$scratch/hurt/firn-survey-data/test_file.7"
wait "$hurt"
check "a failed survey exits with 1" test $? = 1
check "it says why" grep -q 'firn survey: .*firn-survey-data' "$scratch/hurt.err"
check "it reports what it had" grep -q 'append 4 KiB' "$scratch/hurt.out"
check "it writes the report too" test -f "$scratch/hurt/report.html"
check "it removes its files too" no_test_files "$scratch/hurt"

# Bad input: nothing is touched.
touch "$scratch/file"
check_fails 2 'there is no option --sise; did you mean --size' "an unknown option" $FIRN survey --sise=1G "$scratch/bad"
check_fails 2 'second one' "two directories" $FIRN survey "$scratch/bad" "$scratch/worse"
check_fails 2 '--time-scale needs --device' "a time scale on a real disk" $FIRN survey --time-scale=2 "$scratch/bad"
check_fails 2 'hdd' "an unknown model" $FIRN survey --device=hdd-7201 "$scratch/bad"
check_fails 2 'out of range' "a size that is too small" $FIRN survey --size=1M "$scratch/bad"
check_fails 1 'has .* free.*--size' "a size that the disk cannot hold" $FIRN survey --size=900T -o "$scratch/worse" "$scratch/bad"
check_fails 1 'is not a directory' "a file in place of a directory" $FIRN survey "$scratch/file"
check_fails 1 'cannot' "a directory without a parent" $FIRN survey "$scratch/no/such"
check_fails 1 'is not a directory' "a file in place of the output" $FIRN survey -o "$scratch/file" "$scratch/bad"
check "nothing was left by any of them" test ! -e "$scratch/bad" -a ! -e "$scratch/worse"
done_testing
