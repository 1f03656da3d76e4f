#!/usr/bin/env bash
# Installs the Debian packages that crema is built and tested with (Debian 12 or newer, as root or
# with sudo). Does nothing when all of them are there. Pass --dev for what only the gates,
# sanitizers and fuzz targets need.
set -eu

packages=(build-essential cmake ninja-build pkg-config zstd
  libdnnl-dev libprotobuf-c-dev protobuf-c-compiler liblmdb-dev libleveldb-dev
  libhdf5-dev libturbojpeg0-dev libjpeg62-turbo-dev libpng-dev zlib1g-dev libcmocka-dev python3 spin)
if [ "${1:-}" = --dev ]; then
  packages+=(clang clang-format libclang-rt-dev)
fi

# Other programs' eyes on databases, for one test. Left out where the release has no such package.
optional=(lmdb-utils python3-plyvel)

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [ "${state%% *}" = ii ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "Installing: ${missing[*]}"
if [ "$(id -u)" = 0 ]; then
  run=()
elif command -v sudo >/dev/null; then
  run=(sudo)
else
  echo "setup: these Debian packages are missing and neither root nor sudo is at hand:" >&2
  echo "  apt-get install ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
"${run[@]}" apt-get update -qq
for package in "${optional[@]}"; do
  if apt-cache show "$package" >/dev/null 2>&1; then missing+=("$package"); fi
done
"${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
