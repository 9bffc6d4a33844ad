#!/ usr / bin / env bash
#Result files keep to docs / result.schema.json; the schema refuses what is none.
."$(dirname " $0 ")/../lib.sh" root = $(cd "$(dirname " $0 ")/../.." && pwd) python =
    / usr / bin /
            python3

            if !"$python" -
        c 'import jsonschema' 2 >
    / dev / null; then
    echo "ok 1 - # SKIP python3-jsonschema is not installed"
    echo "1..1"
    exit 0
fi

#Columns are cut to their first intervals, after their lengths have been compared : the validator
#takes a second for ten thousand numbers.
cat > "$scratch/validate.py" << 'PYTHON'
import json
import sys

import jsonschema

schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
document = json.load(open(sys.argv[2]))
for run in document["runs"]:
    columns = [c for c in run["intervals"].values() if isinstance(c, list)]
    for part in list(run["intervals"].values()) + list(run.get("host", {}).values()):
        if isinstance(part, dict):
            columns += part.values()
    lengths = {len(c) for c in columns}
    if len(lengths) != 1:
        sys.exit(f"{run['name']}: columns of different lengths {lengths}")
    for column in columns:
        del column[50:]
for change in sys.argv[3:]:
    exec(change)
errors = list(jsonschema.Draft202012Validator(schema).iter_errors(document))
for error in errors[:5]:
    print(list(error.absolute_path), error.message[:200], file=sys.stderr)
sys.exit(1 if errors else 0)
PYTHON
validate()
{
    "$python"
    "$scratch/validate.py"
    "$root/docs/result.schema.json"
    "$@";
}

made=$scratch/made
mkdir "$made"
check "made-up results are written" "$(dirname "$FIRN")/tests/tools/make_results" "$made"
for file in "$made"/*.json; do
    check "$(basename "$file") keeps to the schema" validate "$file"
done
check_fails 1 "required" "a run without a judgement is refused" \
    validate "$made/stalls.json" 'del document["runs"][0]["judgement"]'
check_fails 1 "not of type" "a text in a column is refused" \
    validate "$made/stalls.json" 'document["runs"][0]["intervals"]["read"]["p99_us"][3] = "x"'
check_fails 1 "was expected" "another version is refused" \
    validate "$made/stalls.json" 'document["version"] = 2'
done_testing
