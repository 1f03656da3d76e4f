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
