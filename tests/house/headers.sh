#!/bin/sh
# headers.sh SOURCE_DIR CC: each public header compiles alone, as C11 and as C++17.
set -eu
cd "$1"
failed=0
for header in include/crema/*.h; do
  name=crema/$(basename "$header")
  printf '#include "%s"\n' "$name" |
    "$2" -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -x c -fsyntax-only - || failed=1
  printf '#include "%s"\n' "$name" |
    c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -Iinclude -x c++ -fsyntax-only - || failed=1
done
exit $failed
