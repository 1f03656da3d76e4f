# crema_options: what every target of the project is compiled with.
add_library(crema_options INTERFACE)
target_compile_options(crema_options INTERFACE
  -Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes> -Wvla -Wpointer-arith
  -Wwrite-strings -Werror
  # Found by flow analysis, so it differs from compiler to compiler: shown, not fatal.
  $<$<C_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized>
  # Nobody reads errno after sqrtf, nor the floating-point flags: loops with them vectorise.
  -fno-math-errno -fno-trapping-math
  # As GCC does for ISO C: fused products would make the bits depend on an element's place in a vector.
  $<$<C_COMPILER_ID:Clang,AppleClang>:-ffp-contract=off>
  $<$<CONFIG:Debug>:-g>)
target_compile_definitions(crema_options INTERFACE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE)
if(CREMA_CHECKS)
  target_compile_definitions(crema_options INTERFACE CR_CHECKS)
endif()
if(CREMA_SANITIZE)
  target_compile_options(crema_options INTERFACE
    -fsanitize=${CREMA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
  target_link_options(crema_options INTERFACE -fsanitize=${CREMA_SANITIZE})
endif()
if(CREMA_OPENMP)
  target_link_libraries(crema_options INTERFACE OpenMP::OpenMP_C)
else()
  target_compile_options(crema_options INTERFACE -Wno-unknown-pragmas)
endif()
