# One test compiles small units and expects them to be refused.
target_compile_definitions(test_memory_primitives PRIVATE CREMA_C_COMPILER="${CMAKE_C_COMPILER}")
# Memory that runs out (tests/no_memory.h).
foreach(function malloc calloc realloc aligned_alloc posix_memalign strdup strndup)
  target_link_options(test_memory_no_memory PRIVATE -Wl,--wrap=${function})
endforeach()
