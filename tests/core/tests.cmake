# Opens the shared library itself.
add_executable(unload ${CMAKE_CURRENT_LIST_DIR}/unload.c)
target_include_directories(unload PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(unload PRIVATE crema_options Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(unload PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_dependencies(unload crema_shared example_plugin)
add_test(NAME core/unload COMMAND unload $<TARGET_FILE:crema_shared> $<TARGET_FILE:example_plugin>)
# System calls that are interrupted, fail or do less than was asked.
foreach(call openat read pread write fsync close rename mkdir)
  target_link_options(test_core_io PRIVATE -Wl,--wrap=${call})
endforeach()
# Waits are counted.
target_link_options(test_core_clock PRIVATE -Wl,--wrap=nanosleep -Wl,--wrap=sched_yield)
# A system that takes only a part of what is sent, and does not tell how long a child has computed.
target_link_options(test_core_child PRIVATE -Wl,--wrap=send -Wl,--wrap=clock_getcpuclockid)
# The test provides the files that describe the machine's memory.
target_link_options(test_core_mem_probe PRIVATE -Wl,--wrap=cr_io_open)
# CR_ASSERT with and without the checks, whatever the preset.
target_sources(test_core_assert PRIVATE ${CMAKE_CURRENT_LIST_DIR}/assert_released.c)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/test_assert.c PROPERTIES COMPILE_DEFINITIONS CR_CHECKS)
# A module to be opened.
add_library(test_opened MODULE ${CMAKE_CURRENT_LIST_DIR}/opened.c)
target_link_libraries(test_opened PRIVATE crema_options)
set_target_properties(test_opened PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_options(test_core_module PRIVATE -Wl,--wrap=readlink)
target_compile_definitions(test_core_module PRIVATE CREMA_TEST_OPENED="$<TARGET_FILE:test_opened>")
add_dependencies(test_core_module test_opened)
foreach(call cr_io_open cr_io_open_at cr_io_read cr_io_write cr_io_sync cr_io_close cr_io_rename renameat2 getrandom
        cr_clock_sleep fdopendir)
  target_link_options(test_core_file_calls PRIVATE -Wl,--wrap=${call})
endforeach()
# Asks HDF5 itself what is open.
target_link_libraries(test_core_hdf5_file PRIVATE PkgConfig::HDF5)
target_link_libraries(test_core_hdf5_reader PRIVATE PkgConfig::HDF5)
target_link_libraries(test_core_no_memory PRIVATE PkgConfig::HDF5)
# No thread can be had; who is woken is counted.
target_link_options(test_core_thread PRIVATE -Wl,--wrap=pthread_create -Wl,--wrap=cr_queue_wake)
# Memory that runs out (tests/no_memory.h).
foreach(function malloc calloc realloc aligned_alloc posix_memalign strdup strndup)
  target_link_options(test_core_no_memory PRIVATE -Wl,--wrap=${function})
endforeach()
