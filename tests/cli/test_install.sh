#!/bin/bash
# make install into any folder: a program is built against it, shared and static, in C and C++.
. "$(dirname "$0")/lib.sh"
build=$(cd "$(dirname "$crema")/.." && pwd)
model=$source_dir/models/squeezenet_v1.0
arguments=("$model/deploy.prototxt" "$model/squeezenet_v1.0.caffemodel"
  "$source_dir/examples/images/cat.jpg")

cmake --install "$build" --prefix "$work/first" >log 2>&1 || { fail "install"; cat log; finish; }
mv first tree # pkg-config must find everything from its own place
pc=$(find "$work/tree" -name crema.pc)
export PKG_CONFIG_PATH=${pc%/*}
lib=$(cd "${pc%/*}/.." && pwd)

# Instrumented libraries need a program that is instrumented as well.
flags=()
nm -D "$lib/libcrema.so" | grep -q '__asan_init' && flags=(-fsanitize=address,undefined)
nm -D "$lib/libcrema.so" | grep -q '__tsan_init' && flags=(-fsanitize=thread)

example=$source_dir/examples/embed/classify.c
cc "${flags[@]}" "$example" $(pkg-config --cflags --libs crema) -o shared >log 2>&1 ||
  { fail "linking"; cat log; finish; }
LD_LIBRARY_PATH=$lib ./shared "${arguments[@]}" >shared.txt 2>log || { fail "running"; cat log; }
[ -s shared.txt ] || fail "the program says nothing"

mkdir static_only
cp "$lib/libcrema.a" static_only/
cc "${flags[@]}" "$example" $(pkg-config --cflags crema) -Lstatic_only \
  $(pkg-config --static --libs crema | sed 's/-L[^ ]*tree[^ ]*//') -o static >log 2>&1 ||
  { fail "linking statically"; cat log; finish; }
./static "${arguments[@]}" >static.txt 2>log || { fail "running the static one"; cat log; }
cmp shared.txt static.txt || fail "the static library gives something else"

[ "$(tree/bin/caffe version)" = "$(tree/bin/crema version)" ] || fail "caffe is not crema"
(cd / && "$work/tree/bin/crema" classify "${arguments[2]}") >log 2>&1 ||
  { fail "the installed command does not find its model"; cat log; }

if command -v c++ >/dev/null; then
  for header in tree/include/crema/*.h; do
    echo "#include <crema/${header##*/}>" >header.cc
    c++ -std=c++11 -Wall -Wextra -pedantic -Werror $(pkg-config --cflags crema) -fsyntax-only \
      header.cc >log 2>&1 || { fail "C++ and ${header##*/}"; cat log; }
  done
fi
finish
