# Opens the shared library itself.
add_executable(unload ${CMAKE_CURRENT_LIST_DIR}/unload.c)
target_include_directories(unload PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(unload PRIVATE crema_options Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(unload PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_dependencies(unload crema_shared example_plugin)
add_test(NAME core/unload COMMAND unload $<TARGET_FILE:crema_shared> $<TARGET_FILE:example_plugin>)
# CR_ASSERT with and without the checks, whatever the preset.
target_sources(test_core_assert PRIVATE ${CMAKE_CURRENT_LIST_DIR}/assert_released.c)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/test_assert.c PROPERTIES COMPILE_DEFINITIONS CR_CHECKS)
# A module to be opened.
add_library(test_opened MODULE ${CMAKE_CURRENT_LIST_DIR}/opened.c)
target_link_libraries(test_opened PRIVATE crema_options)
set_target_properties(test_opened PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_compile_definitions(test_core_module PRIVATE CREMA_TEST_OPENED="$<TARGET_FILE:test_opened>")
add_dependencies(test_core_module test_opened)
# Asks HDF5 itself what is open.
target_link_libraries(test_core_hdf5_file PRIVATE PkgConfig::HDF5)
target_link_libraries(test_core_hdf5_reader PRIVATE PkgConfig::HDF5)
target_link_libraries(test_core_no_memory PRIVATE PkgConfig::HDF5)
