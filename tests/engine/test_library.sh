#!/usr/bin/env bash
# What a program that links libfirn sees: the exported names, and a header that C and C++ take.
. "$(dirname "$0")/../lib.sh"
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(dirname "$FIRN")

only_firn_names_are_exported() {
    nm -D --defined-only "$build/libfirn.so" | awk '{print $3}' | grep -vE '^(firn_[a-z_]+@@FIRN_0|FIRN_0(@@FIRN_0)?)$' > "$scratch/others"
    cat "$scratch/others"
    [ ! -s "$scratch/others" ]
}

every_declared_function_is_exported() {
    grep -oE '\bfirn_[a-z_]+\(' "$top/include/firn.h" | tr -d '(' | sort -u | grep -v '^firn_rc$' > "$scratch/declared"
    [ -s "$scratch/declared" ] || return 1
    while read -r name; do
        nm -D --defined-only "$build/libfirn.so" | grep -q " $name@" || { echo "$name is not exported"; return 1; }
    done < "$scratch/declared"
}

cat > "$scratch/user.c" <<'E2'
#include <firn.h>
#include <stdio.h>
int main(void)
{
    printf("%s|%s|%s\n", firn_version(), firn_rc_text(FIRN_E_NOSPACE), firn_error_text());
    return 0;
}
E2

a_program_links_the_shared_library() {
    gcc -std=c17 -Wall -Wextra -pedantic -Werror -I"$top/include" "$scratch/user.c" -L"$build" -lfirn \
        -Wl,-rpath,"$build" -o "$scratch/user" && "$scratch/user" | grep -E '^[0-9.]+\|the disk or the quota is full\|$'
}

check "only firn_* names are exported" only_firn_names_are_exported
check "every function of firn.h is exported" every_declared_function_is_exported
check "firn.h is C++ as well" clang -x c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only "$top/include/firn.h"
# A sanitizer's shared library wants its run-time in the program too.
if ! nm -D "$build/libfirn.so" | grep -qE '__(asan|tsan)_'; then
    check "a program links the shared library" a_program_links_the_shared_library
fi
done_testing
