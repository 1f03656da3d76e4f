#!/bin/bash
# make install into any folder: a program is built against it, shared and static, in C and C++.
. "$(dirname "$0")/lib.sh"
build=$(cd "$(dirname "$crema")/.." && pwd)
model=$source_dir/models/squeezenet_v1.0
arguments=("$model/deploy.prototxt" "$model/squeezenet_v1.0.caffemodel"
  "$source_dir/examples/images/cat.jpg")

# `make uninstall` reads the list of what was installed, which may be the user's: it is put back.
[ ! -e "$build/install_manifest.txt" ] || cp "$build/install_manifest.txt" manifest
give_back() {
  if [ -e "$work/manifest" ]; then cp "$work/manifest" "$build/install_manifest.txt"; fi
  rm -rf "$work"
}
trap give_back EXIT

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

# Weights in HDF5: from the module beside the shared library, from the static library itself.
cat >h5.prototxt <<'NET'
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 1 } }
NET
cat >h5.c <<'C'
#include <crema/crema.h>
#include <stdio.h>
int main(int count, char **argument) {
  crema_net *net = NULL;
  crema_status status = crema_net_load("h5.prototxt", NULL, &net);
  if (status == CREMA_OK && count == 1) status = crema_net_save_weights(net, "h5.caffemodel.h5");
  if (status == CREMA_OK) status = crema_net_load_weights(net, "h5.caffemodel.h5");
  printf("%s\n", status == CREMA_OK ? "ok" : crema_error_text());
  crema_net_destroy(net);
  return argument == NULL;
}
C
cc "${flags[@]}" h5.c $(pkg-config --cflags --libs crema) -o h5_shared >log 2>&1 || cat log
cc "${flags[@]}" h5.c $(pkg-config --cflags crema) -Lstatic_only \
  $(pkg-config --static --libs crema | sed 's/-L[^ ]*tree[^ ]*//') -o h5_static >log 2>&1 || cat log
[ "$(LD_LIBRARY_PATH=$lib ./h5_shared)" = ok ] || fail "HDF5 through the shared library"
[ "$(CREMA_HDF5_MODULE=missing ./h5_static again)" = ok ] || fail "HDF5 in the static library"

[ "$(tree/bin/caffe version)" = "$(tree/bin/crema version)" ] || fail "caffe is not crema"
(cd / && "$work/tree/bin/crema" classify "${arguments[2]}") >log 2>&1 ||
  { fail "the installed command does not find its model"; cat log; }

# The installed command finds the module in the library folder of its own tree.
cat >h5_solver.prototxt <<'SOLVER'
train_net: "h5.prototxt" base_lr: 0 lr_policy: "fixed" max_iter: 0 snapshot_format: HDF5
snapshot_prefix: "h5" solver_mode: CPU
SOLVER
(PATH=$work/tree/bin:$PATH; crema train -solver h5_solver.prototxt -weights h5.caffemodel.h5) \
  >log 2>&1 || { fail "the installed command and HDF5"; cat log; }

# What was installed goes, and nothing else.
cmake --install "$build" --prefix "$work/gone" >log 2>&1 || { fail "installing again"; cat log; }
[ -L gone/bin/caffe ] && [ -e gone/bin/caffe ] || fail "caffe is no link to crema"
touch gone/bin/else
make -s -C "$source_dir" uninstall BUILD="$build" >log 2>&1 || { fail "uninstall"; cat log; }
[ "$(find gone ! -type d)" = gone/bin/else ] || fail "left: $(find gone ! -type d)"
[ ! -e gone/include/crema ] && [ ! -e gone/share/crema ] || fail "folders of crema are left"
make -s -C "$source_dir" uninstall BUILD="$build" >log 2>&1 && fail "uninstalled twice"
expect_line "uninstalled twice" 'nothing was installed'

if command -v c++ >/dev/null; then
  for header in tree/include/crema/*.h; do
    echo "#include <crema/${header##*/}>" >header.cc
    c++ -std=c++11 -Wall -Wextra -pedantic -Werror $(pkg-config --cflags crema) -fsyntax-only \
      header.cc >log 2>&1 || { fail "C++ and ${header##*/}"; cat log; }
  done
fi
finish
