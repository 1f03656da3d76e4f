# The conformance runner and the set that travels with the project.
file(GLOB golden_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/golden*.c)
add_executable(golden ${golden_sources})
target_link_libraries(golden PRIVATE crema_internal PkgConfig::HDF5)
target_include_directories(golden PRIVATE ${CMAKE_CURRENT_LIST_DIR})
target_compile_definitions(golden PRIVATE GOLDEN_PENDING_LIST="${CMAKE_CURRENT_LIST_DIR}/pending.txt")
set_target_properties(golden PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

set(golden_dir ${PROJECT_BINARY_DIR}/golden)
crema_unpack(golden_data ${CMAKE_CURRENT_LIST_DIR}/golden.tar.zst ${golden_dir})

foreach(group layers solvers transform proto nets)
  add_test(NAME golden/${group}
    COMMAND golden -q ${golden_dir}/${group})
endforeach()
# The layers in other element types, too.
foreach(type DOUBLE FLOAT16 BFLOAT16)
  add_test(NAME golden/layers_${type}
    COMMAND golden -q -type ${type} ${golden_dir}/layers)
endforeach()
