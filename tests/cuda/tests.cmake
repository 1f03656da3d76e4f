# The rows of the CUDA table on the host, by the comparator that tests the rows of the CPU. Needs
# neither nvcc nor a GPU.
file(GLOB cuda_rows CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cuda/rows*.c)
set(cuda_comparator
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/test_kernels.c
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_cases.c
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_check.c
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

# What every device must do, on the devices that every machine has.
add_executable(device_conformance ${CMAKE_CURRENT_LIST_DIR}/conformance.c)
add_cuda_test(device_conformance)
foreach(device cpu sim)
  add_test(NAME device/conformance_${device} COMMAND device_conformance ${device})
  set_tests_properties(device/conformance_${device} PROPERTIES ENVIRONMENT "CREMA_SIM=devices=2")
endforeach()

if(NOT CREMA_CUDA)
  return()
endif()

# The plug-in itself. Skipped where there is no GPU.
add_executable(cuda_kernels ${cuda_comparator} ${CMAKE_CURRENT_LIST_DIR}/device_gpu.c)
add_cuda_test(cuda_kernels)
add_dependencies(cuda_kernels crema_cuda)
set(golden_run golden -q -gpu 0 -pending ${CMAKE_CURRENT_SOURCE_DIR}/golden/pending.txt
  ${PROJECT_BINARY_DIR}/golden/layers ${PROJECT_BINARY_DIR}/golden/solvers)
add_test(NAME cuda/kernels COMMAND cuda_kernels)
add_test(NAME cuda/conformance COMMAND device_conformance cuda)
add_test(NAME cuda/golden COMMAND ${golden_run})
set_tests_properties(cuda/kernels cuda/conformance cuda/golden PROPERTIES
  LABELS gpu SKIP_RETURN_CODE 77
  ENVIRONMENT "CREMA_CUDA_PLUGIN=$<TARGET_FILE:crema_cuda>;OMP_WAIT_POLICY=passive")

# Loading: needs the plug-in and no GPU.
add_executable(cuda_plugin ${CMAKE_CURRENT_LIST_DIR}/plugin.c)
add_cuda_test(cuda_plugin)
add_dependencies(cuda_plugin crema_cuda)
target_compile_definitions(cuda_plugin PRIVATE CREMA_PLUGIN="$<TARGET_FILE:crema_cuda>")
add_test(NAME cuda/plugin COMMAND cuda_plugin)

# The plug-in's own C files over a CUDA runtime, a cuBLASLt and a cuDNN that run on the host: how the
# libraries are called is tested without a GPU.
set(fake_dir ${PROJECT_BINARY_DIR}/cuda/fake)
foreach(library cublasLt:fake_cublaslt:13 cudnn:fake_cudnn:9)
  string(REPLACE ":" ";" parts ${library})
  list(GET parts 0 name)
  list(GET parts 1 source)
  list(GET parts 2 version)
  add_library(${source} SHARED ${CMAKE_CURRENT_LIST_DIR}/fake/${source}.c)
  target_include_directories(${source} SYSTEM PRIVATE ${CREMA_CUDA_INCLUDE} ${CREMA_CUDNN_INCLUDE})
  target_link_libraries(${source} PRIVATE crema_options)
  set_target_properties(${source} PROPERTIES OUTPUT_NAME ${name} VERSION ${version}
    SOVERSION ${version} LIBRARY_OUTPUT_DIRECTORY ${fake_dir})
endforeach()
add_library(crema_cuda_fake MODULE ${cuda_sources} ${CMAKE_CURRENT_LIST_DIR}/fake/fake_runtime.c)
set_target_properties(crema_cuda_fake PROPERTIES OUTPUT_NAME crema-cuda C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${fake_dir})
target_include_directories(crema_cuda_fake PRIVATE ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_SOURCE_DIR}/src)
target_include_directories(crema_cuda_fake SYSTEM PRIVATE ${CREMA_CUDA_INCLUDE}
  ${CREMA_CUDNN_INCLUDE})
target_link_libraries(crema_cuda_fake PRIVATE crema_options Threads::Threads m ${CMAKE_DL_LIBS})
add_dependencies(crema_cuda_fake fake_cublaslt fake_cudnn)
add_dependencies(cuda_kernels crema_cuda_fake)
add_test(NAME cuda/kernels_on_fake COMMAND cuda_kernels)
add_test(NAME cuda/conformance_on_fake COMMAND device_conformance cuda)
add_test(NAME cuda/golden_on_fake COMMAND ${golden_run})
set_tests_properties(cuda/kernels_on_fake cuda/conformance_on_fake cuda/golden_on_fake
  PROPERTIES ENVIRONMENT
  "CREMA_CUDA_PLUGIN=$<TARGET_FILE:crema_cuda_fake>;LD_LIBRARY_PATH=${fake_dir};OMP_WAIT_POLICY=passive")

# Without the libraries: another cuDNN makes convolutions matrix products, and without cuBLASLt too (a
# library of that name that has none of its functions) they run on the CPU.
add_library(fake_bare SHARED ${CMAKE_CURRENT_LIST_DIR}/fake/fake_cudnn.c)
target_include_directories(fake_bare SYSTEM PRIVATE ${CREMA_CUDA_INCLUDE} ${CREMA_CUDNN_INCLUDE})
target_link_libraries(fake_bare PRIVATE crema_options)
set_target_properties(fake_bare PROPERTIES OUTPUT_NAME cublasLt VERSION 13 SOVERSION 13
  LIBRARY_OUTPUT_DIRECTORY ${fake_dir}/bare)
add_test(NAME cuda/golden_without_cudnn COMMAND ${golden_run})
add_test(NAME cuda/golden_without_libraries COMMAND ${golden_run})
set_tests_properties(cuda/golden_without_cudnn PROPERTIES ENVIRONMENT
  "CREMA_CUDA_PLUGIN=$<TARGET_FILE:crema_cuda_fake>;LD_LIBRARY_PATH=${fake_dir};FAKE_CUDNN_VERSION=8900")
set_tests_properties(cuda/golden_without_libraries PROPERTIES ENVIRONMENT
  "CREMA_CUDA_PLUGIN=$<TARGET_FILE:crema_cuda_fake>;LD_LIBRARY_PATH=${fake_dir}/bare:${fake_dir};FAKE_CUDNN_VERSION=8900")
