# The rows of the CUDA table on the host, by the comparator that tests the rows of the CPU. Needs
# neither nvcc nor a GPU.
file(GLOB cuda_rows CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cuda/rows*.c)
set(cuda_comparator
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/test_kernels.c
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_cases.c
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_reference.c
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_reference_rest.c
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_problem.c
  ${CMAKE_CURRENT_LIST_DIR}/op_run_device.c)
set(cuda_on_host ${cuda_rows} ${PROJECT_SOURCE_DIR}/src/device/cuda/fault.c
  ${CMAKE_CURRENT_LIST_DIR}/launch_host.c ${CMAKE_CURRENT_LIST_DIR}/device_host.c)

function(add_cuda_test target)
  target_link_libraries(${target} PRIVATE crema_internal PkgConfig::CMOCKA)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    ${CMAKE_CURRENT_SOURCE_DIR}/ops ${CMAKE_CURRENT_SOURCE_DIR}/cuda)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

add_executable(cuda_kernels_on_host ${cuda_comparator} ${cuda_on_host})
add_cuda_test(cuda_kernels_on_host)
add_test(NAME cuda/kernels_on_host COMMAND cuda_kernels_on_host)
set_tests_properties(cuda/kernels_on_host PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)

if(NOT CREMA_CUDA)
  return()
endif()

# The plug-in itself. Skipped where there is no GPU.
add_executable(cuda_kernels ${cuda_comparator} ${CMAKE_CURRENT_LIST_DIR}/device_gpu.c)
add_cuda_test(cuda_kernels)
add_dependencies(cuda_kernels crema_cuda)
add_test(NAME cuda/kernels COMMAND cuda_kernels)
set_tests_properties(cuda/kernels PROPERTIES LABELS gpu SKIP_RETURN_CODE 77
  ENVIRONMENT "CREMA_CUDA_PLUGIN=$<TARGET_FILE:crema_cuda>;OMP_WAIT_POLICY=passive")

# Loading: needs the plug-in and no GPU.
add_executable(cuda_plugin ${CMAKE_CURRENT_LIST_DIR}/plugin.c)
add_cuda_test(cuda_plugin)
add_dependencies(cuda_plugin crema_cuda)
target_compile_definitions(cuda_plugin PRIVATE CREMA_PLUGIN="$<TARGET_FILE:crema_cuda>")
add_test(NAME cuda/plugin COMMAND cuda_plugin)
