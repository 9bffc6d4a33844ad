#!/usr/bin/env bash
# firn report: bad input, the files it writes, and the page in a browser.
. "$(dirname "$0")/../lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
made=$scratch/made
mkdir "$made"
"$(dirname "$FIRN")/tests/tools/make_results" "$made" > /dev/null || exit 1

skip() { # name reason
    test_number=$((test_number + 1))
    echo "ok $test_number - $1 # SKIP $2"
}

# ---- Bad input: one sentence, and nothing written ------------------------------------------------

cd "$scratch" || exit 1
: > empty.json
head -c 5000 made/stalls.json > cut.json
echo 'hello' > text.json
echo '{"format": "fio"}' > other.json
sed 's/"version": *1,/"version":2,/' made/stalls.json > newer.json
mkdir directory
ls > before

check_fails 2 'no result file is named' "no file is a usage error" "$FIRN" report
check_fails 2 'no option' "an unknown option is a usage error" "$FIRN" report --speed=9 made/stalls.json
check_fails 1 '^firn report: cannot open missing.json: No such file' "a file that is not there" "$FIRN" report missing.json
check_fails 1 '^firn report: empty.json is empty' "an empty file" "$FIRN" report empty.json
check_fails 1 '^firn report: cut.json ends in the middle' "a file that was cut off" "$FIRN" report cut.json
check_fails 1 '^firn report: text.json is not JSON \(line 1' "a file that is no JSON" "$FIRN" report text.json
check_fails 1 "^firn report: other.json is JSON but no result" "another program's JSON" "$FIRN" report other.json
check_fails 1 '^firn report: newer.json is a result of version 2' "a newer version" "$FIRN" report newer.json
check_fails 1 '^firn report: directory is a directory' "a directory" "$FIRN" report directory
check_fails 1 'is the same file as' "a file given twice" "$FIRN" report made/stalls.json ./made/stalls.json
check_fails 1 'no run or file is called "x"' "an unknown baseline" "$FIRN" report --baseline=x made/stalls.json
check_fails 1 'cut.json ends' "a good file beside a bad one" "$FIRN" report made/stalls.json cut.json
ls > after
check "nothing was written by any of them" sh -c 'echo after >> before && sort before | cmp - after'
cp made/stalls.json secret.json
chmod 0 secret.json
check_fails 1 'cannot open secret.json: Permission denied' "a file that may not be read" unprivileged "$FIRN" report secret.json
check_fails 1 'made/stalls.json is a file' "a file in the directory's place" "$FIRN" report made/odd.json -o made/stalls.json
check_fails 1 'cannot write to standard output' "a full disk behind the table" \
    sh -c "'$FIRN' report --pictures=off made/odd.json -o full > /dev/full"

# ---- What is written -------------------------------------------------------------------------------

check "a report beside its result by default" sh -c "'$FIRN' report --pictures=off made/sweep.json > sweep.txt && test -f made/sweep.report/report.html"
check "the table has each run" test "$(grep -c '^random ' sweep.txt)" = 11
check "and says where the report is" grep -qx 'Report: made/sweep.report/report.html' sweep.txt
check "the same again replaces it" "$FIRN" report --pictures=off made/sweep.json
check "what the list names is there" sh -c "cd made/sweep.report && tail -n +2 report.files | xargs ls"
check "as many CSV files as runs" test "$(ls made/sweep.report/intervals-*.csv | wc -l)" = 11

json_says() { # an expression over the table t
    "$FIRN" report --pictures=off --json "${@:2}" -o json.report > table.json &&
        python3 -c 'import json, sys
t = json.load(open("table.json"))
sys.exit(not eval(sys.argv[1]))' "$1"
}
check "--json prints the table" json_says 'len(t["runs"]) == 11 and t["runs"][0]["group"]["x"] == 1' made/sweep.json
mkdir files
"$FIRN" fileio --dir=files --file-num=2 --file-total-size=1M prepare > /dev/null
for number in 1 2; do
    "$FIRN" fileio --dir=files --file-num=2 --file-total-size=1M --file-test-mode=rndrd --events=200 --json=run$number.json run > /dev/null
done
check "a run and its repetition are repeats" json_says 'len(t["runs"]) == 1 and t["runs"][0]["repeats"] == 2' run1.json run2.json
check "like runs are repeats" json_says 'len(t["runs"]) == 2 and t["runs"][0]["repeats"] == 6 and t["runs"][0]["operations_per_s"]["confidence"] > 0.95' made/repeat_*.json
check "unlike runs of one name are compared with the first file's" \
    json_says 'len(t["runs"]) == 4 and t["runs"][1]["baseline"] == t["runs"][0]["label"] and 0.5 < t["runs"][1]["ratio"]["ratio"] < 0.8 and t["runs"][1]["ratio"]["differences"] > 1' \
    made/repeat_*.json made/other_*.json
check "a model is marked in its label" json_says 't["runs"][0]["modelled"] and t["runs"][0]["label"].endswith("(modelled)")' made/modelled.json
check "a stall is counted apart from the median" json_says 't["runs"][0]["stalls"] == 30 and t["runs"][0]["operations_per_s"]["mean"] < 0.7 * t["runs"][0]["operations_per_s"]["median"]' made/stalls.json

if command -v gnuplot > /dev/null; then
    check "pictures of strange runs" sh -c "'$FIRN' report made/odd.json -o odd > /dev/null 2> odd.log && test ! -s odd.log"
    check "pictures of groups, events and models" sh -c "'$FIRN' report made/sweep.json made/both.json made/modelled.json -o pictured > /dev/null 2> pictured.log && test ! -s pictured.log"
    check "every picture was drawn" sh -c "for d in odd pictured; do (cd \$d && tail -n +2 report.files | xargs ls -s | awk '\$1 == 0 { exit 1 }') || exit 1; done"
    check "every SVG is well-formed" python3 -c 'import sys, xml.dom.minidom
for path in sys.argv[1:]: xml.dom.minidom.parse(path)' odd/pictures/*.svg pictured/pictures/*.svg
    check "the script draws them again" sh -c "cd pictured/pictures && rm -f *.png && gnuplot pictures.gp 2> /dev/null && test -s timeline.png"
else
    skip "pictures" "gnuplot is not installed"
    "$FIRN" report --pictures=off made/odd.json -o odd > /dev/null
fi

# ---- The page in a browser -------------------------------------------------------------------------

if ! command -v chromium > /dev/null && ! command -v chromium-browser > /dev/null && ! command -v google-chrome > /dev/null; then
    skip "the page in a browser" "Chromium is not installed"
    done_testing
fi

# page_says FILE EXPRESSION EXPECTED...: no complaint of the browser, and each expression's value as JSON.
page_says() {
    local file=$1 expressions=() expected=()
    shift
    while [ $# -gt 0 ]; do
        expressions+=("$1")
        expected+=("$2")
        shift 2
    done
    "$here/browser.py" "$file" "${expressions[@]}" > page.out || { cat page.out; return 1; }
    printf '%s\n' "${expected[@]}" > page.expected
    sed '/^opened: /d' page.out > page.got
    diff page.expected page.got
}
drawn='Number(document.documentElement.dataset.charts)'

# 4 of all runs, 4 of the groups; runs are closed, opening them draws theirs: 9 or 11 each.
check "all charts of a sweep are drawn" page_says made/sweep.report/report.html \
    "$drawn" 8 'document.querySelector("#open-all").click()' null "$drawn > 80" true \
    '[...charts].filter((chart) => !chart.graph).length' 0 \
    'document.querySelector("#close-all").click(); setTimeWindow([1, 5])' null \
    'document.querySelector("#open-all").click()' null \
    '[...charts].filter((chart) => chart.spec.isTime && chart.graph.xAxisRange().join() !== "1,5").length' 0

check "hostile names stay text" page_says odd/report.html \
    'document.images.length' 0 \
    'document.querySelector("h1").textContent.includes("</script><script>alert(1)</script>")' true \
    'document.querySelectorAll("script").length' 5 \
    '[...document.scripts].filter((script) => !script.type).length' 1

# Refusing is told on the console, so complaints are expected here.
check "a script without the page's nonce does not run" sh -c "'$here/browser.py' odd/report.html \
    'window.ran = 0; document.body.append(Object.assign(document.createElement(\"script\"), { textContent: \"window.ran = 1\" })); window.ran' |
    grep -qx 0"

# The page's own ratios are those of the table.
"$FIRN" report --pictures=off --baseline="random read 16 KiB, sync, 8 threads" made/sweep.json -o based > /dev/null
ratios='[...document.querySelectorAll("td.ratio")].map((cell) => cell.textContent).join(";")'
here_ratios=$("$here/browser.py" based/report.html "$ratios" | sed -n 1p)
check "a baseline chosen in the page gives the ratios of --baseline" page_says made/sweep.report/report.html \
    'document.querySelector("#unlike").hidden' true \
    '{ const select = document.querySelector("#baseline"); select.value = "row:3"; select.dispatchEvent(new Event("change")); }' true \
    "$ratios" "$here_ratios" \
    'document.querySelector("#unlike").hidden' false

"$FIRN" report --pictures=off made/both.json made/modelled.json -o both > /dev/null
check "time charts zoom together and back" page_says both/report.html \
    'setTimeWindow([10, 20])' null \
    '[...charts].filter((chart) => chart.spec.isTime).every((chart) => chart.graph.xAxisRange().join() === "10,20")' true \
    'document.querySelector("#reset-zoom").click()' null \
    '[...charts].filter((chart) => chart.spec.isTime).every((chart) => chart.graph.xAxisRange()[1] > 100)' true \
    'document.querySelector(".plot").dispatchEvent(new KeyboardEvent("keydown", { key: "+" }))' true \
    'timeWindow !== null' true

check "axes turn logarithmic, units change, runs can be hidden" page_says both/report.html \
    'document.querySelectorAll("figure[data-chart=timeline] .switch button")[3].click()' null \
    '[...charts].find((chart) => chart.figure.dataset.chart === "timeline").graph.getOption("logscale")' true \
    'document.querySelectorAll("figure[data-chart=timeline] .switch button")[1].click()' null \
    '[...charts].find((chart) => chart.figure.dataset.chart === "timeline").view.name' '"MiB/s"' \
    'document.querySelector(".chip").click()' null \
    'document.querySelectorAll("figure[data-chart=timeline] .legend-item").length' 1

check "the table sorts by its columns" page_says made/sweep.report/report.html \
    'document.querySelectorAll("#summary-table thead button")[2].click()' null \
    '[...document.querySelectorAll("#summary-table tbody th")].map((cell) => cell.textContent)[0]' '"random write 16 KiB, async, depth 16"' \
    'document.querySelectorAll("#summary-table thead th")[2].getAttribute("aria-sort")' '"descending"'

check "a model is marked in table, verdict, chips and legends" page_says both/report.html \
    'document.querySelectorAll(".badge.modelled").length >= 3' true \
    '[...document.querySelectorAll(".chip, .legend-item")].filter((item) => item.textContent.includes("(modelled)")).length >= 4' true

check "every picture has a description, every button a name" page_says both/report.html \
    '[...document.querySelectorAll(".plot")].filter((plot) => !(plot.getAttribute("aria-label") || "").trim()).length' 0 \
    '[...document.querySelectorAll("button")].filter((button) => !button.textContent.trim()).length' 0

# Ten hours at 1 s, twice. How long it takes is for the eye: machines differ.
check "ten hours open" sh -c "'$FIRN' report --pictures=off made/steady.json made/slowdowns.json -o ten > /dev/null && '$here/browser.py' ten/report.html '$drawn > 20' > ten.out && grep -qx true ten.out"
sed -n 's/^opened: /# ten hours twice, opened in /p' ten.out

done_testing
