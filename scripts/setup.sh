#!/usr/bin/env bash
# Installs the Debian packages that crema is built and tested with (Debian 12 or newer, as root or
# with sudo). Does nothing when all of them are there. Pass --dev for what only the gates,
# sanitizers and fuzz targets need as well, --docs for what `make docs` needs alone, --arm64 for the
# cross compiler, the emulator and the 64-bit Arm libraries that the preset arm64 needs.
set -eu

libraries=(libdnnl-dev libprotobuf-c-dev liblmdb-dev libleveldb-dev libhdf5-dev libturbojpeg0-dev
  libjpeg62-turbo-dev libpng-dev libtiff-dev libwebp-dev libgif-dev zlib1g-dev libexpat1-dev
  libcairo2-dev libcmocka-dev)
packages=(build-essential cmake ninja-build pkg-config zstd protobuf-c-compiler "${libraries[@]}"
  openmpi-bin python3 python3-dev python3-numpy python3-protobuf fonts-dejavu-core spin opencl-headers ocl-icd-libopencl1)
# Other programs' eyes on databases, for one test; OpenCL on the CPU and its BLAS, for the tests of the
# OpenCL plug-in. Left out where the release has no such package.
optional=(lmdb-utils python3-plyvel pocl-opencl-icd libclblast1)
case ${1:-} in
  --dev) packages+=(clang clang-format libclang-rt-dev llvm doxygen) ;;
  --docs) packages=(doxygen python3) optional=() ;;
  --arm64) packages+=(gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user) ;;
esac

# Unpacks the libraries for 64-bit Arm, and what they need, into build-arm64-root. Apt works in that
# folder alone, so the system's own packages and architectures stay as they are.
unpack_arm64() {
  local root=build-arm64-root apt link
  if [ "$(cat "$root/packages" 2>/dev/null)" = "${libraries[*]}" ]; then return; fi
  echo "Unpacking libraries for 64-bit Arm: $root"
  rm -rf "$root"
  mkdir -p "$root/apt/lists/partial" "$root/apt/archives/partial"
  : >"$root/apt/status"
  apt=$PWD/$root/apt
  cat >"$apt/conf" <<END
APT { Architecture "arm64"; Architectures { "arm64"; }; Install-Recommends "false"; };
Dir { State "$apt"; State::status "$apt/status"; Cache "$apt"; };
END
  APT_CONFIG=$apt/conf apt-get update -qq
  APT_CONFIG=$apt/conf apt-get install -y -qq --download-only libc6-dev libgomp1 \
    "${libraries[@]}" >/dev/null
  for package in "$apt"/archives/*.deb; do dpkg -x "$package" "$root"; done
  find "$root" -type l -lname '/*' | while read -r link; do
    ln -snfr "$root$(readlink "$link")" "$link"
  done
  rm -rf "$apt"
  echo "${libraries[*]}" >"$root/packages"
}

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  # The second letter says what is there; the first, what is wanted (also "h": held).
  [ "${state:1:1}" = i ] || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
  [ "${1:-}" != --arm64 ] || unpack_arm64
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here. Install what these Debian packages hold, then build with" >&2
  echo "  cmake --preset release && cmake --build --preset release" >&2
  echo "Packages: ${missing[*]}" >&2
  exit 1
fi
# sudo hands no variables on.
if [ "$(id -u)" = 0 ]; then
  run=(env DEBIAN_FRONTEND=noninteractive)
elif command -v sudo >/dev/null; then
  run=(sudo env DEBIAN_FRONTEND=noninteractive)
else
  echo "setup: these Debian packages are missing and neither root nor sudo is at hand:" >&2
  echo "  apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "Installing: ${missing[*]}"
"${run[@]}" apt-get update -qq ||
  echo "setup: the lists of packages cannot be updated; going on with those that are here" >&2
for package in "${optional[@]}"; do
  if apt-cache show "$package" >/dev/null 2>&1; then missing+=("$package"); fi
done
"${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || {
  echo "setup: these Debian packages could not be installed (is the network there?):" >&2
  echo "  ${missing[*]}" >&2
  exit 1
}
[ "${1:-}" != --arm64 ] || unpack_arm64
