#!/usr/bin/env bash
# firn fileio end to end: sysbench's lines and options, old forms, bad input, interruption, proof of
# contents.
. "$(dirname "$0")/../lib.sh"

dir=$scratch/files
mkdir "$dir"
small=(--dir="$dir" --file-num=4 --file-total-size=4M)

fileio() {
    "$FIRN" fileio "${small[@]}" "$@"
}

# In the background, as process $runner. A shell without job control has its children ignore SIGINT.
fileio_background() {
    env --default-signal=INT "$FIRN" fileio "${small[@]}" "$@" > "$out" 2> /dev/null &
    runner=$!
}

# The files as they are: names, sizes, contents.
state() {
    (cd "$dir" && ls && cat test_file.* 2> /dev/null | cksum)
}

# The command fails as check_fails has it, and the files are as before.
refuses() { # status text name command...
    local before name=$3
    before=$(state)
    check_fails "$@"
    check "$name: files untouched" test "$before" = "$(state)"
}

out=$scratch/out

# ---- What sysbench's users and scripts see -------------------------------------------------------

fileio prepare > "$out"
expected="4 files, 1024Kb each, 4Mb total
Creating files for the test...
Extra file open flags: (none)
Creating file $dir/test_file.0
Creating file $dir/test_file.1
Creating file $dir/test_file.2
Creating file $dir/test_file.3"
check "prepare says what sysbench says" test "$(sed -n '3,9p' "$out")" = "$expected"
check "prepare tells bytes and rate" \
    grep -qE '^4194304 bytes written in [0-9]+\.[0-9]{2} seconds \([0-9]+\.[0-9]{2} MiB/sec\)\.$' "$out"
check "files are private" test "$(stat -c %a "$dir/test_file.0")" = 600
fileio prepare > "$out"
check "prepare reuses what is there" \
    test "$(grep -c '^Reusing existing file' "$out"):$(tail -1 "$out")" = "4:No bytes written."

# Every line of sysbench 1.0.20's report, in its order, as a regular expression.
cat > "$scratch/lines" <<'TEXT'
Running the test with following options:
Number of threads: 2
Report intermediate results every 1 second\(s\)
Initializing random number generator from current time


Extra file open flags: \(none\)
4 files, 1MiB each
4MiB total file size
Block size 16KiB
Number of IO requests: 0
Read/Write ratio for combined random IO test: 1\.50
Periodic FSYNC enabled, calling fsync\(\) each 100 requests\.
Calling fsync\(\) at the end of test, Enabled\.
Using synchronous I/O mode
Doing random r/w test
Initializing worker threads\.\.\.

Threads started!

\[ [0-9]+s \] reads: [0-9]+\.[0-9]{2} MiB/s writes: [0-9]+\.[0-9]{2} MiB/s fsyncs: [0-9]+\.[0-9]{2}/s latency \(ms,95%\): [0-9]+\.[0-9]{3}

File operations:
    reads/s:                      [0-9]+\.[0-9]{2}
    writes/s:                     [0-9]+\.[0-9]{2}
    fsyncs/s:                     [0-9]+\.[0-9]{2}

Throughput:
    read, MiB/s:                  [0-9]+\.[0-9]{2}
    written, MiB/s:               [0-9]+\.[0-9]{2}

General statistics:
    total time:                          [0-9]+\.[0-9]{4}s
    total number of events:              [0-9]+

Latency \(ms\):
         min: +[0-9]+\.[0-9]{2}
         avg: +[0-9]+\.[0-9]{2}
         max: +[0-9]+\.[0-9]{2}
         95th percentile: +[0-9]+\.[0-9]{2}
         sum: +[0-9]+\.[0-9]{2}

Threads fairness:
    events \(avg/stddev\):           [0-9]+\.[0-9]{4}/[0-9]+\.[0-9]{2}
    execution time \(avg/stddev\):   [0-9]+\.[0-9]{4}/[0-9]+\.[0-9]{2}

TEXT

# Compare the output, from its line FIRST on, with a file of regular expressions. How many intervals
# are reported depends on how busy the machine is: one of them stands for all.
matches_lines() { # first expressions output
    local number=$1 expression line
    awk '!/^\[ [0-9]+s \]/ || !seen++' "$3" > "$scratch/squeezed"
    while IFS= read -r expression; do
        line=$(sed -n "${number}p" "$scratch/squeezed")
        if ! printf '%s\n' "$line" | grep -qxE -- "$expression"; then
            echo "line $number is:  $line"
            echo "expected:  $expression"
            return 1
        fi
        number=$((number + 1))
    done < "$2"
}

fileio --file-test-mode=rndrw --threads=2 --time=2 --report-interval=1 run > "$out"
check "a run's lines are sysbench's" matches_lines 3 "$scratch/lines" "$out"
if command -v sysbench > /dev/null; then
    (cd "$dir" && sysbench fileio --file-num=4 --file-total-size=4M --file-test-mode=rndrw --threads=2 \
        --time=2 --report-interval=1 run) > "$scratch/sysbench"
    check "sysbench's own lines are matched by the same" matches_lines 3 "$scratch/lines" \
        "$scratch/sysbench"
fi
check "each operation is told apart" \
    test "$(sed -n '/^By operation/,/^$/p' "$out" | grep -cE '^    (read|write|sync) +[0-9.]+ +[0-9.]+( +[0-9.]+){5}$')" = 3
check "the judgement is told" grep -qx 'Judgement:' "$out"
check "what carried it is told" grep -q 'sync I/O by pread and pwrite, through the page cache$' "$out"

fileio --file-test-mode=rndrd --events=1000 --percentile=50,99,99.9 run > "$out"
check "percentiles are a list" test "$(grep -cE '^ +(50|99|99\.9)th percentile: +[0-9.]+$' "$out")" = 3
check "events end a run" grep -q 'total number of events:              1000$' "$out"
fileio --file-test-mode=rndrd --events=1000 --percentile=0 --histogram run > "$out"
check "percentiles can be off" grep -qx '         percentile stats:               disabled' "$out"
check "the histogram counts every event" \
    test "$(sed -n '/^Latency histogram/,/^ $/p' "$out" | awk '/\|/ {n += $NF} END {print n}')" = 1000
fileio --file-test-mode=seqrd --time=1 --interval=10ms --report-interval=0.1 run > "$out"
check "intervals go below a second" test "$(grep -cE '^\[ 0\.[1-9]s \] reads:' "$out")" -ge 8
fileio --file-test-mode=rndrd --time=1.3 --report-checkpoints=1 run > "$out"
check "checkpoints report and count anew" \
    test "$(grep -c '^\[ 1s \] Checkpoint report:$' "$out"):$(grep -c '^File operations:' "$out")" = 1:2
fileio --file-test-mode=rndrd --time=1 --rate=200 --report-interval=1 run > "$out"
check "an open loop tells its queue" \
    grep -qE '^\[ 1s \] queue length: [0-9]+ concurrency: [0-9]+ behind \(ms\): [0-9.]+$' "$out"
check "an open loop tells latencies from the schedule" grep -q '^    from schedule:' "$out"
check "a rate that is met is said to be" grep -q 'The arrival rate of 200/s was met' "$out"
check "an overload is told and succeeds" sh -c '"$0" fileio "$@" | grep -q "Overload: 100000000"' \
    "$FIRN" "${small[@]}" --file-test-mode=rndrd --time=0.5 --rate=100000000 run
fileio --file-test-mode=rndwr --events=100 --verbosity=2 run > "$out"
check "verbosity 2 prints nothing" test ! -s "$out"

# ---- Command lines of old ------------------------------------------------------------------------

old=(--test=fileio --file-total-size=4M --file-test-mode=rndwr --max-time=1 --max-requests=0
    --num-threads=2 --rand-init=on --file-num=4 --file-io-mode=async --file-extra-flags=direct
    --file-fsync-freq=0 --file-block-size=16384 --report-interval=10 run)
(cd "$dir" && "$FIRN" "${old[@]}") > "$out" 2> "$scratch/err"
check "a command line of sysbench 0.4 runs" grep -q '^    writes/s:' "$out"
check "old forms are warned of as sysbench does" test "$(grep -c '^WARNING: ' "$scratch/err")" = 5
check "the warning names the new option" \
    grep -qx 'WARNING: --num-threads is deprecated, use --threads instead' "$scratch/err"
(cd "$dir" && "$FIRN" run --file-test-mode=rndrd fileio --file-num=4 --events=10 \
    --file-total-size=4M) > "$out"
check "words may stand in any order" grep -q '^    reads/s:' "$out"
check "help is a word too" sh -c '"$0" fileio help | grep -q -- --file-async-backlog' "$FIRN"

# ---- Results -------------------------------------------------------------------------------------

fileio --file-test-mode=rndrw --time=0.5 --json="$scratch/result.json" run > /dev/null
check "a result file follows the schema" python3 - "$scratch/result.json" \
    "$(dirname "$0")/../../docs/result.schema.json" <<'PYTHON'
import json, sys
import jsonschema
result, schema = (json.load(open(path)) for path in sys.argv[1:])
jsonschema.validate(result, schema)
run = result["runs"][0]
assert result["command"][:2] == ["firn", "fileio"], result["command"]
assert run["setup"]["file_total_size_bytes"] == 4 << 20, run["setup"]
assert run["setup"]["rand_seed"] > 0
assert run["summary"]["read"]["operations"] > 0
assert run["kinds"] == ["read", "write", "sync"]
PYTHON
check "a result goes to standard output alone" sh -c '"$@" 2> /dev/null | python3 -m json.tool > /dev/null' \
    sh "$FIRN" fileio "${small[@]}" --file-test-mode=rndrd --events=10 run --json
check_fails 1 'nowhere' "a result that cannot be written is told" \
    fileio --file-test-mode=rndrd --events=10 --json="$scratch/nowhere/result.json" run

# ---- Bad input: one sentence, the right status, files as they were -------------------------------

refuses 2 '^firn fileio: .*--file-test-mode' "no test mode" fileio run
refuses 2 'there is no option --file-nums' "an unknown option" fileio --file-nums=4 prepare
refuses 2 'rndxx' "an unknown mode" fileio --file-test-mode=rndxx run
refuses 2 'prepare, run, verify' "no word" fileio
refuses 2 'there is no "explode"' "an unknown word" fileio explode
refuses 2 'at a time' "two words" fileio prepare run
refuses 2 'threads' "no threads" fileio --file-test-mode=rndrd --threads=0 run
refuses 2 'less than one block' "blocks larger than files" \
    fileio --file-test-mode=seqwr --file-block-size=2M run
refuses 2 'no effect on mappings' "mappings with direct I/O" \
    fileio --file-test-mode=seqwr --file-io-mode=mmap --file-extra-flags=direct run
refuses 2 'prove nothing' "validation of nothing" \
    fileio --file-test-mode=seqwr --validate --io-backend=null run
refuses 2 'needs --device' "a real device's time scaled" \
    fileio --file-test-mode=seqwr --time-scale=2 run
refuses 2 'multiple of --interval' "lines between intervals" \
    fileio --file-test-mode=seqwr --interval=300ms --report-interval=1 run
refuses 2 'percentile' "a percentile of 101" fileio --file-test-mode=seqwr --percentile=101 run
refuses 1 'not 8' "another number of files than prepared" \
    fileio --file-test-mode=rndrd --file-num=8 run
refuses 1 '1048576 bytes' "another size than prepared" \
    fileio --file-test-mode=rndrd --file-total-size=8M run
refuses 1 '1048576 bytes' "a smaller size than prepared" \
    fileio --file-test-mode=rndrd --file-total-size=64K run
refuses 1 'more than --file-num=2' "preparing fewer files than there are" fileio --file-num=2 prepare
if "$FIRN" fileio "${small[@]}" --file-test-mode=rndrd --events=1 --file-extra-flags=direct run 2>&1 |
    grep -q ', direct$'; then
    for mode in rndrd seqwr; do
        refuses 1 'which --file-block-size=1000 is not' "a block size that direct I/O refuses, $mode" \
            fileio --file-test-mode=$mode --file-extra-flags=direct --file-block-size=1000 run
    done
fi
truncate -s 1000000 "$dir/test_file.2"
refuses 1 'test_file\.2 has 1000000 bytes' "a file that is too small" \
    fileio --file-test-mode=rndrd run
fileio prepare > /dev/null

mkdir "$scratch/empty"
check_fails 1 "run 'firn fileio prepare'" "a run without prepare" \
    fileio --dir="$scratch/empty" --file-test-mode=rndrd run
check "and it leaves nothing behind" test -z "$(ls -A "$scratch/empty")"
check_fails 1 'there is no directory' "a directory that is not there" fileio --dir="$scratch/none" prepare
touch "$scratch/plain"
check_fails 1 'is a file, not a directory' "a directory that is a file" fileio --dir="$scratch/plain" prepare
check_fails 1 'MiB free' "a disk that is too small" \
    fileio --dir="$scratch/empty" --file-total-size=500P prepare
check "and nothing is begun" test -z "$(ls -A "$scratch/empty")"

# A read-only and a full disk need a file system of one's own.
if [ "$(id -u)" = 0 ] && mkdir "$scratch/tiny" && mount -t tmpfs -o size=32M none "$scratch/tiny" 2> /dev/null; then
    on_tiny=(--dir="$scratch/tiny" --file-num=2)
    check_fails 1 'MiB free' "a full disk, foreseen" \
        "$FIRN" fileio "${on_tiny[@]}" --file-total-size=20M prepare
    "$FIRN" fileio "${on_tiny[@]}" --file-total-size=8M prepare > /dev/null
    mount -o remount,ro "$scratch/tiny"
    check "a read-only disk can be read" \
        "$FIRN" fileio "${on_tiny[@]}" --file-total-size=8M --file-test-mode=rndrd --events=100 run
    check_fails 1 'firn.lock|[Rr]ead-only' "a read-only disk is not written" \
        "$FIRN" fileio "${on_tiny[@]}" --file-total-size=8M --file-test-mode=rndwr --events=100 run
    mount -o remount,rw "$scratch/tiny"
    check_fails 1 'cannot write .*test_file.*[Nn]o space' "a disk that fills up during a run" \
        "$FIRN" fileio "${on_tiny[@]}" --file-total-size=60M --file-test-mode=seqwr run
    check_fails 1 'SIGBUS|[Nn]o space' "a disk that fills up under a mapping" \
        "$FIRN" fileio "${on_tiny[@]}" --file-total-size=60M --file-test-mode=seqwr --file-io-mode=mmap run
    umount "$scratch/tiny"
fi

# ---- Two at once, and interruption ---------------------------------------------------------------

wait_for() { # file text: until a background run has said it
    for _ in $(seq 600); do
        grep -q "$2" "$1" && return 0
        sleep 0.05
    done
    return 1
}

fileio_background --file-test-mode=rndrw --time=0 run
check "an endless run starts" wait_for "$out" 'Threads started'
check_fails 1 "in use by process $runner" "a second run on the directory is refused" \
    fileio --file-test-mode=rndrd --events=1 run
check_fails 1 "in use by process $runner" "so is a preparation" fileio prepare
kill -INT "$runner"
wait "$runner"
check "Ctrl-C ends an endless run well" test $? = 0
check "and the run reports" grep -q '^Threads fairness:' "$out"
check "and says that it was stopped" grep -q 'stopped before its time' "$out"
fileio_background --file-test-mode=rndrw --time=600 run
wait_for "$out" 'Threads started'
kill -TERM "$runner"
wait "$runner"
check "a run stopped before its time exits with 1" test $? = 1

# ---- Proof of contents ---------------------------------------------------------------------------

fileio --validate prepare > /dev/null
check "what prepare wrote proves itself" fileio verify
fileio --validate --file-test-mode=rndrw --time=0.5 --threads=4 --file-io-mode=async --io-depth=16 run > "$out"
check "a validating run runs" grep -q 'Using checksums validation' "$out"
check "and leaves files that prove themselves" fileio verify

# Killed at any moment: with direct I/O every block is whole.
for delay in 0.05 0.3; do
    fileio_background --validate --file-test-mode=rndwr --time=600 --threads=2 \
        --file-io-mode=async --io-depth=8 --file-extra-flags=direct run
    wait_for "$out" 'Threads started'
    sleep $delay
    kill -KILL "$runner"
    wait "$runner" 2> /dev/null
    check "files prove themselves after kill -9 ($delay s)" fileio verify
done
check "and a validating run goes on from them" \
    fileio --validate --file-test-mode=rndrw --events=2000 run

printf 'x' | dd of="$dir/test_file.2" bs=1 seek=49200 conv=notrunc status=none
check_fails 1 '1 of 256 blocks' "verify finds one changed byte" fileio verify
check "and names file and offset" grep -q "test_file.2, offset 49152: the block is damaged" "$scratch/.out"
check_fails 1 'test_file.2, offset 49152' "a validating reader finds it too" \
    fileio --validate --file-test-mode=seqrd --time=5 run
dd if="$dir/test_file.0" of="$dir/test_file.1" bs=16384 count=1 seek=3 conv=notrunc status=none
fileio verify > "$out" 2> /dev/null
check "verify names a misplaced block" \
    grep -q "test_file.1, offset 49152: the block is misplaced: it belongs to test_file.0, offset 0" "$out"
check "prepare --validate makes them whole again" sh -c '"$@" prepare > /dev/null && "$@" verify' sh \
    "$FIRN" fileio "${small[@]}" --validate

# ---- Modelled devices: trouble whose lengths are known ------------------------------------------

modelled=(--time-scale=max --rand-seed=7 --file-test-mode=rndrd)
fileio "${modelled[@]}" --file-block-size=256K --device=test-stall --time=35 run > "$out"
fileio "${modelled[@]}" --file-block-size=256K --device=test-stall --time=35 run > "$scratch/again"
check "a modelled run in virtual time repeats exactly" cmp "$out" "$scratch/again"
judgement=$(sed -n '/^Judgement:/,/^Setup:/p' "$out" | tr -s ' \n' ' ')
check "stalls are told, with length and period" \
    grep -q '3 stalls of 4 s, every 10 s.*No slowdowns' <<< "$judgement"
fileio "${modelled[@]}" --file-block-size=1M --device=test-slowdown --time=150 run > "$out"
judgement=$(sed -n '/^Judgement:/,/^Setup:/p' "$out" | tr -s ' \n' ' ')
check "slowdowns are told apart from stalls, with length and depth" \
    grep -q 'No stalls.*2 slowdowns of 10 s.*work went on at 60 %' <<< "$judgement"
check "and the result says that it is modelled" \
    grep -qx '    modelled: test-slowdown, in virtual time' "$out"

# ---- Cleanup -------------------------------------------------------------------------------------

check_fails 0 'beyond --file-num=3' "cleanup tells of files it leaves" \
    "$FIRN" fileio --dir="$dir" --file-num=3 --file-total-size=4M cleanup
check "cleanup says what sysbench says" grep -qx 'Removing test files...' "$scratch/.out"
fileio cleanup > /dev/null
check "cleanup leaves nothing" test -z "$(ls -A "$dir")"

done_testing
