#!/bin/bash
# scripts/setup.sh on machines of all kinds: what it calls and what it says. No package is touched:
# PATH leads to stand-ins only, which note how they are called.
. "$(dirname "$0")/lib.sh"

# machine PROGRAM...: stand-ins for these; the others are not there.
machine() {
  rm -rf bin calls
  mkdir bin
  : >calls
  for tool in bash env; do ln -s "$(command -v $tool)" bin/; done
  for tool in "$@"; do
    cp stand_in "bin/$tool"
    chmod 755 "bin/$tool"
  done
}
cat >stand_in <<'STAND_IN'
#!/bin/bash
name=${0##*/}
case $name in
  id) echo "${WHO:-0}" ;;
  dpkg-query) [ "${!#}" = "$LACKS" ] && exit 1
    echo "${STATE:-ii }" ;;
  sudo) unset DEBIAN_FRONTEND
    exec "$@" ;;
  apt-get) echo "$* ($DEBIAN_FRONTEND)" >>calls
    [ "$1" != "$FAILS" ] ;;
  apt-cache) [ "$2" = lmdb-utils ] ;;
esac
STAND_IN

# setup [VARIABLE=VALUE...]: output in ./log, exit code in $code; flags of the script in $flags.
flags=()
setup() {
  env -i PATH="$PWD/bin" "$@" "$BASH" "$source_dir/scripts/setup.sh" "${flags[@]}" >log 2>&1
  code=$?
}

machine dpkg-query id apt-get apt-cache sudo
setup
expect_ok "nothing is missing"
[ ! -s calls ] && [ ! -s log ] || fail "nothing is missing, and yet: $(cat calls log)"
setup STATE="hi "
expect_ok "packages that are held"
[ ! -s calls ] || fail "held packages are installed again"

for who in 0 1000; do
  machine dpkg-query id apt-get apt-cache sudo
  setup LACKS=spin WHO=$who
  expect_ok "one is missing, user $who"
  expect_line "updated by user $who" '^update -qq \(noninteractive\)$' calls
  expect_line "installed by user $who" '^install .* spin lmdb-utils \(noninteractive\)$' calls
done

# Each set of packages has its own; the documents need nothing else.
machine dpkg-query id apt-get apt-cache sudo
setup LACKS=doxygen
[ ! -s calls ] || fail "a build needs Doxygen"
flags=(--docs)
setup LACKS=doxygen
expect_line "packages for the documents" '^install .* doxygen \(noninteractive\)$' calls
machine dpkg-query id apt-get apt-cache sudo
setup LACKS=libdnnl-dev
[ ! -s calls ] || fail "the documents need oneDNN"
flags=(--dev)
setup LACKS=doxygen
expect_line "packages for developers" '^install .* doxygen lmdb-utils' calls
flags=()

machine dpkg-query id apt-get apt-cache
setup LACKS=spin WHO=1000
[ "$code" -eq 1 ] || fail "neither root nor sudo: exit code $code"
expect_line "neither root nor sudo" 'apt-get install spin$'
[ ! -s calls ] || fail "called without the right to"

machine dpkg-query id apt-get apt-cache sudo
setup LACKS=spin FAILS=update
expect_ok "old lists of packages"
expect_line "old lists of packages" 'cannot be updated'
setup LACKS=spin FAILS=install
[ "$code" -eq 1 ] || fail "not installed: exit code $code"
expect_line "not installed" 'could not be installed'
expect_line "not installed" '^  spin lmdb-utils$'

machine id
setup
[ "$code" -eq 1 ] || fail "not Debian: exit code $code"
expect_line "not Debian" 'no apt-get here'
expect_line "not Debian" '^Packages: build-essential .* spin .*ocl-icd-libopencl1$'
finish
