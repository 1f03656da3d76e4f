# A short deterministic-by-seed run of each fuzz target; long runs use the fuzz preset.
file(GLOB fuzz_targets CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fuzz/*.c)
foreach(source ${fuzz_targets})
  get_filename_component(name ${source} NAME_WE)
  add_executable(fuzz_run_${name} ${source} ${CMAKE_CURRENT_LIST_DIR}/driver.c)
  target_link_libraries(fuzz_run_${name} PRIVATE crema_internal)
  set_target_properties(fuzz_run_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME fuzz/${name} COMMAND fuzz_run_${name} 20000 0
    ${PROJECT_BINARY_DIR}/golden/proto ${PROJECT_BINARY_DIR}/golden/transform
    ${PROJECT_BINARY_DIR}/golden/layers/ImageData ${PROJECT_BINARY_DIR}/golden/layers/Data
    ${PROJECT_SOURCE_DIR}/examples/images)
  set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT 120)
endforeach()
