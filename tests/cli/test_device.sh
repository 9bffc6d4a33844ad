#!/usr/bin/env bash
# firn device: the models by name, their parameters, their checks, and bad input.
. "$(dirname "$0")/../lib.sh"

models="hdd-7200 hdd-15k hdd-7200-raid10x8 hdd-15k-raid1 ssd-x25e ssd-sata ssd-sata-dc
        ssd-slc-enterprise ssd-pcie nvme test-stall test-slowdown"
says() { # TEXT COMMAND...
    local text=$1
    shift
    "$@" | tee "$scratch/said" | grep -qE -- "$text"
}

# list
check "list has one line a model" test "$($FIRN device list | wc -l)" = "$(echo $models | wc -w)"
for model in $models; do
    check "list has $model" says "^$model  *[a-zA-Z]" $FIRN device list
done
check "test devices are marked" says '^test-stall .*test device' $FIRN device list
check "list as JSON" sh -c "$FIRN device list --json > $scratch/list.json"
check "it has the same names" test "$(jq -r '.[].name' "$scratch/list.json")" = \
    "$($FIRN device list | cut -d' ' -f1)"

# show
check "show tells parameters with units" says 'average seek  *8.5 ms' $FIRN device show hdd-7200
check "show tells the source" says 'X25-E' $FIRN device show ssd-x25e
check "show of a composed model" says 'members  *6' $FIRN device show hdd-7200:raid5x6+cache=512M
check "its disks' own caches are off" says 'volatile write cache in use  *no' \
    $FIRN device show hdd-7200:raid5x6+cache=512M
check "show as JSON" sh -c "$FIRN device show nvme --json > $scratch/show.json"
check "it has numbers with units in their names" sh -c \
    "jq -e '.member.read_us == 105 and .sheet.read_iops == 460000 and .kind == \"ssd\"' $scratch/show.json"

# check
for model in $models; do
    check "$model is within its data sheet" says 'Every figure is within 15 %' $FIRN device check $model
done
check "check tells a dip" says 'dip begins at 19.8 min and lasts 10 s, at 59 %' $FIRN device check ssd-slc-enterprise
check "a composed model has no data sheet" says 'no data sheet' $FIRN device check nvme:raid0x2
check "check as JSON" sh -c "$FIRN device check ssd-x25e --json > $scratch/check.json"
check "it has rows, figures and the verdict" sh -c "jq -e '
    .modelled and .passed and (.runs | length) == 20 and (.sheet | length) == 5 and
    (.sheet | all(.ratio > 0.85 and .ratio < 1.15)) and
    (.runs | map(select(.pattern == \"random\" and .operation == \"read\" and .block_bytes == 16384)
             | .depth)) == [1, 8, 32, 128] and .sync_us > 100' $scratch/check.json"
check "two checks print the same" sh -c \
    "$FIRN device check nvme > $scratch/one && $FIRN device check nvme | cmp - $scratch/one"
check "no line is wider than a terminal" sh -c "! $FIRN device check hdd-7200 | grep -E '^.{81}'"

# Bad input.
check_fails 2 'what shall be done' "no action" $FIRN device
check_fails 2 'did you mean list' "an unknown action" $FIRN device lsit
check_fails 2 'which model' "no model" $FIRN device show
check_fails 2 'one word too many' "too many words" $FIRN device check nvme ssd-sata
check_fails 2 'one word too many' "list takes no word" $FIRN device list nvme
check_fails 2 'did you mean hdd-15k' "an unknown model" $FIRN device check hdd-15
check_fails 2 'no RAID level' "an unknown RAID level" $FIRN device show hdd-15k:raid6x8
check_fails 2 'even' "an odd RAID 10" $FIRN device show hdd-15k:raid10x5
check_fails 2 'cache=SIZE' "an unknown part" $FIRN device show hdd-15k+cahce=1M
check_fails 2 'unknown|no option' "an unknown option" $FIRN device list --jason
check_fails 1 'standard output' "a full disk" sh -c "$FIRN device check nvme > /dev/full"
check "help is there" says 'check NAME' $FIRN device --help

done_testing
