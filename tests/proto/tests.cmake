# Memory that runs out (tests/no_memory.h).
foreach(function malloc calloc realloc aligned_alloc posix_memalign strdup strndup)
  target_link_options(test_proto_no_memory PRIVATE -Wl,--wrap=${function})
endforeach()
# Many files, none of which need outlive a power cut.
target_link_options(test_proto_no_memory PRIVATE -Wl,--wrap=fsync)
# Every field of every dialect is read, or said to have no effect, or refused.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME proto/fields COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fields.py
  $<TARGET_FILE:crema_cli>)
