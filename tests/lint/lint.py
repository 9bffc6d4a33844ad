#!/usr/bin/env python3
"""Lint: what the compiler does not hold. Speaks TAP; exits non-zero if a rule is broken.

  layering    a file includes only its own folder and folders below it; *_internal.h only its own
  documented  every function in a header that other folders may use has a comment
  size        no function is longer than a screen or two; the longest are listed for the eye
  readmes     every folder of src has its README
  private     the project names no machine, workplace or registry
  formatted   clang-format has nothing to change
  pages       mandoc has nothing to say about the man pages
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# From the bottom to the top; ARCHITECTURE.md gives the reasons.
LAYERS = ["base", "io", "page", "redo", "buffer", "mtr", "space", "recovery", "btree", "scan", "txn", "binlog", "table",
          "dump", "engine", "bench", "report", "cli"]
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 1000


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT,
                         capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in out.splitlines() if (ROOT / name).is_file()]


def sources():
    return [p for p in tracked("*.c", "*.h") if "fuzz/corpus" not in str(p)]


def layering():
    for path in sources():
        parts = path.relative_to(ROOT).parts
        if parts[0] != "src":
            continue
        folder = parts[1]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            name = match.group(1)
            where = f"{path.relative_to(ROOT)}:{number}"
            if name == "firn.h" or (parts[1] == "report" and name.startswith("report_assets")):
                continue
            if "/" not in name:
                yield f'{where}: include "{folder}/{name}" by its folder'
                continue
            other = name.split("/")[0]
            if other not in LAYERS:
                yield f"{where}: {other} is no folder of src"
            elif LAYERS.index(other) > LAYERS.index(folder):
                yield f"{where}: {folder} may not include {other}, which stands above it"
            elif name.endswith("_internal.h") and other != folder:
                yield f"{where}: {name} belongs to {other} alone"


def strip_bodies(text):
    """Blank out bodies in braces but keep lines, so that only declarations remain."""
    out, depth = [], 0
    for char in text:
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        elif depth == 0 or char == "\n":
            out.append(char)
    return "".join(out)


def documented():
    """A comment ends on the line above the declaration, or above the block of declarations it is in."""
    headers = tracked("include/*.h") + [p for p in tracked("src/*.h")]
    for path in headers:
        # Neither extern "C" nor function-like macros are declarations; comments are kept as one mark.
        text = re.sub(r'extern "C" \{', "", path.read_text())
        text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n") + "@", text, flags=re.S)
        text = re.sub(r"^[ \t]*#.*?(?<!\\)$", "", text, flags=re.M | re.S)
        lines = strip_bodies(text).splitlines()
        covered = False
        statement = ""
        for number, line in enumerate(lines, 1):
            if not statement and not line.strip():
                covered = False
                continue
            if "@" in line and not statement:
                covered = True
                line = line.replace("@", "")
            statement += " " + line.strip()
            if not statement.strip():
                statement = ""
                continue
            if ";" in line or (line.rstrip().endswith(")") and statement.lstrip().startswith("static inline")):
                is_function = re.search(r"\b\w+\s*\([^()]*(\([^()]*\)[^()]*)*\)", statement)
                skipped = re.match(r"\s*(typedef|struct \w+\s*;|_?[Ss]tatic_assert|extern const|enum)", statement)
                if is_function and not skipped and not covered:
                    name = re.search(r"(\w+)\s*\(", statement).group(1)
                    yield f"{path.relative_to(ROOT)}:{number}: {name} has no comment"
                statement = ""


def functions():
    """(lines, place, name) of every function; our style opens and closes it at the first column."""
    for path in sources():
        lines = path.read_text().splitlines()
        start = None
        for number, line in enumerate(lines, 1):
            if line == "{":
                start = number
            elif line == "}" and start is not None:
                head = " ".join(lines[max(0, start - 6):start - 1])
                names = re.findall(r"(\w+)\s*\(", head)
                name = next((n for n in reversed(names) if n != "__attribute__"), "?")
                yield number - start - 1, f"{path.relative_to(ROOT)}:{start}", name
                start = None


def size():
    for length, place, name in functions():
        if length > FUNCTION_LINES_MAX:
            yield f"{place}: {name} has {length} lines, over {FUNCTION_LINES_MAX}: cut it at its seams"
    for path in sources():
        length = len(path.read_text().splitlines())
        if length > FILE_LINES_MAX:
            yield f"{path.relative_to(ROOT)}: {length} lines, over {FILE_LINES_MAX}: it holds two modules"


def readmes():
    for folder in sorted({p.relative_to(ROOT).parts[1] for p in sources()
                          if p.relative_to(ROOT).parts[0] == "src"}):
        if not (ROOT / "src" / folder / "README.md").exists():
            yield f"src/{folder}: no README.md"


def private():
    bad = re.compile(r"/wor[k]/|/roo[t]/|/home/[a-z]|registry\.npmj[s]|deb\.debia[n]\.org|TOD[O]|FIXM[E]")
    for path in tracked("*"):
        if path.suffix in (".png", ".bin") or "fuzz/corpus" in str(path):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            match = bad.search(line)
            if match:
                yield f"{path.relative_to(ROOT)}:{number}: {match.group(0)}"


def formatted():
    tool = shutil.which("clang-format")
    if tool is None:
        yield "clang-format is not installed"
        return
    files = [str(p) for p in sources()]
    done = subprocess.run([tool, "--dry-run", *files], cwd=ROOT, capture_output=True, text=True)
    for line in done.stderr.splitlines():
        if "warning" in line:
            yield line.split(" warning:")[0].replace(f"{ROOT}/", "") + " is not as clang-format lays it out"


def pages():
    tool = shutil.which("mandoc")
    if tool is None:
        yield "mandoc is not installed"
        return
    for path in tracked("man/*.[17]"):
        done = subprocess.run([tool, "-T", "lint", "-W", "warning", str(path)], capture_output=True,
                              text=True)
        # A date would have to be changed with every change of a page; the version is enough.
        for line in (done.stdout + done.stderr).splitlines():
            if "missing date" not in line:
                yield line.replace(f"{ROOT}/", "").removeprefix("mandoc: ")


def main():
    rules = [layering, documented, size, readmes, private, formatted, pages]
    broken = 0
    print(f"1..{len(rules)}")
    for number, rule in enumerate(rules, 1):
        faults = list(rule())
        print(f"{'not ok' if faults else 'ok'} {number} - {rule.__name__}")
        for fault in faults[:40]:
            print(f"# {fault}")
        broken += bool(faults)
    print("# The longest functions (lines of body):")
    for length, place, name in sorted(functions(), reverse=True)[:8]:
        print(f"#   {length:4} {name} {place}")
    print("# The longest files (lines):")
    sizes = sorted(((len(p.read_text().splitlines()), p.relative_to(ROOT)) for p in sources()),
                   reverse=True)
    for length, path in sizes[:8]:
        print(f"#   {length:4} {path}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
