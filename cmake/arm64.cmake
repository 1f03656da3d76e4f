# Toolchain file: builds for Debian on 64-bit Arm with Debian's cross compiler (CREMA_ARM64_CC=clang: with
# Clang) and the libraries that `scripts/setup.sh --arm64` unpacks into build-arm64-root. Programs run under
# qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
get_filename_component(arm64_root ${CMAKE_CURRENT_LIST_DIR}/../build-arm64-root REALPATH)
set(CMAKE_SYSROOT ${arm64_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${arm64_root})
set(ENV{PKG_CONFIG_LIBDIR} ${arm64_root}/usr/lib/aarch64-linux-gnu/pkgconfig:${arm64_root}/usr/share/pkgconfig)

set(CREMA_ARM64_CC gcc CACHE STRING "Compiler for aarch64: gcc or clang")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CREMA_ARM64_CC)
if(CREMA_ARM64_CC STREQUAL "clang")
  set(CMAKE_C_COMPILER clang)
  set(CMAKE_CXX_COMPILER clang++)
  set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
  set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
else()
  set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
  set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
endif()
# A processor without SVE, so that crema's own convolutions run.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu neoverse-n1 -L ${arm64_root})
