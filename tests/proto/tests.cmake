# Memory that runs out (tests/no_memory.h).
foreach(function malloc calloc realloc aligned_alloc posix_memalign strdup strndup)
  target_link_options(test_proto_no_memory PRIVATE -Wl,--wrap=${function})
endforeach()
# Many files, none of which need outlive a power cut.
target_link_options(test_proto_no_memory PRIVATE -Wl,--wrap=fsync)
