# The rows of the CUDA table on the host, by the comparator that tests the rows of the CPU. Needs
# neither nvcc nor a GPU.
file(GLOB cuda_rows CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/gpu/rows*.c)
list(APPEND cuda_rows ${PROJECT_SOURCE_DIR}/src/device/gpu/launch.c ${PROJECT_SOURCE_DIR}/src/device/gpu/fault.c
  ${PROJECT_SOURCE_DIR}/src/device/gpu/layout.c)
file(GLOB cuda_comparator CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_*.c)
list(REMOVE_ITEM cuda_comparator ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_run.c)
list(APPEND cuda_comparator ${CMAKE_CURRENT_LIST_DIR}/op_run_device.c)
# The programs that compare rows: on given cases, on windows and on shapes drawn at random.
set(cuda_compares_kernels ${CMAKE_CURRENT_SOURCE_DIR}/ops/test_kernels.c)
set(cuda_compares_windows ${CMAKE_CURRENT_SOURCE_DIR}/ops/test_windows.c)
set(cuda_compares_shapes ${CMAKE_CURRENT_LIST_DIR}/shapes.c
  ${CMAKE_CURRENT_LIST_DIR}/sequences.c)

function(add_cuda_test target)
  target_link_libraries(${target} PRIVATE crema_internal PkgConfig::CMOCKA)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    ${CMAKE_CURRENT_SOURCE_DIR}/ops ${CMAKE_CURRENT_SOURCE_DIR}/cuda)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

# The device functions as C, in each form.
set(cuda_functions ${CMAKE_CURRENT_LIST_DIR}/functions_host.c)
foreach(form f32 f16 bf16)
  list(APPEND cuda_functions ${CMAKE_CURRENT_LIST_DIR}/functions_host_${form}.c)
endforeach()

# On the host, and inside a simulated device.
set(cuda_bodies ${cuda_rows}
  ${CMAKE_CURRENT_LIST_DIR}/launch_host.c ${cuda_functions})
function(add_cuda_rows target)
  add_library(${target} OBJECT ${cuda_comparator} ${ARGN})
  target_link_libraries(${target} PRIVATE crema_internal PkgConfig::CMOCKA)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    ${CMAKE_CURRENT_SOURCE_DIR}/ops ${CMAKE_CURRENT_SOURCE_DIR}/cuda)
endfunction()
add_cuda_rows(cuda_rows_on_host ${cuda_bodies} ${CMAKE_CURRENT_LIST_DIR}/device_host.c)
add_cuda_rows(cuda_rows_in_sim ${cuda_bodies} ${CMAKE_CURRENT_LIST_DIR}/device_sim.c)
foreach(what kernels_on_host windows_on_host shapes_on_host windows_in_sim shapes_in_sim)
  string(REGEX MATCH "^[a-z]+" program ${what})
  string(REGEX MATCH "[a-z]+_[a-z]+$" place ${what})
  add_executable(cuda_${what} ${cuda_compares_${program}} $<TARGET_OBJECTS:cuda_rows_${place}>)
  add_cuda_test(cuda_${what})
  add_test(NAME cuda/${what} COMMAND cuda_${what})
  set_tests_properties(cuda/${what} PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
endforeach()
add_executable(cuda_train_in_sim ${CMAKE_CURRENT_LIST_DIR}/train.c
  $<TARGET_OBJECTS:cuda_rows_in_sim>)
add_cuda_test(cuda_train_in_sim)
add_test(NAME cuda/train_in_sim COMMAND cuda_train_in_sim small)

# What every device must do, on the devices that every machine has.
add_executable(device_conformance ${CMAKE_CURRENT_LIST_DIR}/conformance.c)
add_cuda_test(device_conformance)
foreach(device cpu sim)
  add_test(NAME device/conformance_${device} COMMAND device_conformance ${device})
  set_tests_properties(device/conformance_${device} PROPERTIES ENVIRONMENT "CREMA_SIM=devices=2")
endforeach()

# The programs that run on a GPU, of whatever plug-in.
set(comparisons kernels windows shapes)
add_cuda_rows(cuda_rows_on_gpu ${CMAKE_CURRENT_LIST_DIR}/device_gpu.c)
foreach(what ${comparisons})
  add_executable(cuda_${what} ${cuda_compares_${what}} $<TARGET_OBJECTS:cuda_rows_on_gpu>)
  add_cuda_test(cuda_${what})
endforeach()
add_executable(cuda_train ${CMAKE_CURRENT_LIST_DIR}/train.c
  ${CMAKE_CURRENT_LIST_DIR}/device_gpu.c)
add_cuda_test(cuda_train)
add_executable(cuda_exchange ${CMAKE_CURRENT_LIST_DIR}/exchange.c)
add_cuda_test(cuda_exchange)
target_link_libraries(cuda_exchange PRIVATE ${CMAKE_DL_LIBS})

# The instructions of kernels. Needs nvcc only.
add_test(NAME cuda/ptx COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/ptx.py ${PROJECT_SOURCE_DIR})
set_tests_properties(cuda/ptx PROPERTIES SKIP_RETURN_CODE 77)

if(NOT CREMA_CUDA)
  return()
endif()

# The CUDA plug-in itself. Skipped where there is no GPU.
foreach(what ${comparisons} train exchange)
  add_dependencies(cuda_${what} crema_cuda)
  add_test(NAME cuda/${what} COMMAND cuda_${what})
endforeach()
set(golden_run golden -q -gpu 0 -pending ${CMAKE_CURRENT_SOURCE_DIR}/golden/pending.txt
  ${PROJECT_BINARY_DIR}/golden/layers ${PROJECT_BINARY_DIR}/golden/solvers)
add_test(NAME cuda/conformance COMMAND device_conformance cuda)
add_test(NAME cuda/golden COMMAND ${golden_run})
# The layers in 16 bits, too.
set(half_types FLOAT16 BFLOAT16)
foreach(type ${half_types})
  set(golden_${type} golden -q -gpu 0 -type ${type} ${PROJECT_BINARY_DIR}/golden/layers)
  add_test(NAME cuda/golden_${type} COMMAND ${golden_${type}})
endforeach()
set_tests_properties(cuda/kernels cuda/windows cuda/shapes cuda/conformance cuda/golden
  cuda/golden_FLOAT16 cuda/golden_BFLOAT16 cuda/train cuda/exchange PROPERTIES
  LABELS gpu SKIP_RETURN_CODE 77
  ENVIRONMENT "CREMA_CUDA_PLUGIN=$<TARGET_FILE:crema_cuda>;OMP_WAIT_POLICY=passive")

# Loading: needs the plug-in and no GPU.
add_executable(cuda_plugin ${CMAKE_CURRENT_LIST_DIR}/plugin.c)
add_cuda_test(cuda_plugin)
add_dependencies(cuda_plugin crema_cuda)
target_compile_definitions(cuda_plugin PRIVATE CREMA_PLUGIN="$<TARGET_FILE:crema_cuda>")
add_test(NAME cuda/plugin COMMAND cuda_plugin)

# The plug-in's own files over a CUDA driver, runtime, cuBLASLt and cuDNN that run on the host: how the
# libraries are called is tested without a GPU. Needs cuDNN's header.
if(NOT cudnn_major EQUAL 9)
  return()
endif()
set(fake_dir ${PROJECT_BINARY_DIR}/cuda/fake)
function(add_fake target name version source folder)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/fake/${source}.c
    ${CMAKE_CURRENT_LIST_DIR}/fake/${source}_*.c)
  add_library(${target} SHARED ${files})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(${target} SYSTEM PRIVATE ${cuda_includes})
  target_link_libraries(${target} PRIVATE crema_options m)
  if(NOT target STREQUAL fake_driver)
    target_link_libraries(${target} PRIVATE fake_driver)
  endif()
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} VERSION ${version}
    SOVERSION ${version} LIBRARY_OUTPUT_DIRECTORY ${folder})
endfunction()
add_fake(fake_driver cuda 1 fake_driver ${fake_dir})
add_fake(fake_cublaslt cublasLt 13 fake_cublaslt ${fake_dir})
add_fake(fake_cudnn cudnn 9 fake_cudnn ${fake_dir})
add_fake(fake_nccl nccl 2 fake_nccl ${fake_dir})

file(GLOB fake_runtime ${CMAKE_CURRENT_LIST_DIR}/fake/fake_runtime.c
  ${CMAKE_CURRENT_LIST_DIR}/fake/fake_graph.c ${CMAKE_CURRENT_LIST_DIR}/fake/fake_launch.c)
add_library(crema_cuda_fake MODULE ${cuda_sources} ${cuda_object} ${fake_runtime} ${cuda_functions})
set_target_properties(crema_cuda_fake PROPERTIES OUTPUT_NAME crema-cuda C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${fake_dir})
target_include_directories(crema_cuda_fake PRIVATE ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_SOURCE_DIR}/src)
target_include_directories(crema_cuda_fake SYSTEM PRIVATE ${cuda_includes})
target_compile_definitions(crema_cuda_fake PRIVATE ${cuda_definitions})
target_link_libraries(crema_cuda_fake PRIVATE crema_options fake_driver Threads::Threads m
  ${CMAKE_DL_LIBS})
add_dependencies(crema_cuda_fake fake_cublaslt fake_cudnn fake_nccl crema_cuda)
foreach(what ${comparisons})
  add_dependencies(cuda_${what} crema_cuda_fake)
  add_test(NAME cuda/${what}_on_fake COMMAND cuda_${what})
endforeach()
set(on_fake "CREMA_CUDA_PLUGIN=$<TARGET_FILE:crema_cuda_fake>" "LD_LIBRARY_PATH=${fake_dir}"
  "OMP_WAIT_POLICY=passive")
add_test(NAME cuda/conformance_on_fake COMMAND device_conformance cuda)
add_test(NAME cuda/golden_on_fake COMMAND ${golden_run})
add_test(NAME cuda/train_on_fake COMMAND cuda_train small)
add_dependencies(cuda_train crema_cuda_fake)
add_dependencies(cuda_exchange crema_cuda_fake)
add_test(NAME cuda/exchange_on_fake COMMAND cuda_exchange)
# An NCCL that is too old.
add_test(NAME cuda/exchange_without_nccl COMMAND cuda_exchange)
set_tests_properties(cuda/exchange_on_fake cuda/exchange_without_nccl PROPERTIES
  ENVIRONMENT "${on_fake}" TIMEOUT 120)
set_property(TEST cuda/exchange_without_nccl APPEND PROPERTY ENVIRONMENT FAKE_NCCL_VERSION=21003)
# Several processes.
add_test(NAME cuda/nccl_processes_on_fake COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_nccl_processes.sh
  $<TARGET_FILE:crema_cli> ${PROJECT_SOURCE_DIR})
set_tests_properties(cuda/nccl_processes_on_fake PROPERTIES ENVIRONMENT "${on_fake}" TIMEOUT 120
  SKIP_RETURN_CODE 77)
# Such as mpirun did not start, from C and from Python.
add_executable(cuda_join ${CMAKE_CURRENT_LIST_DIR}/join.c)
add_cuda_test(cuda_join)
target_link_libraries(cuda_join PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(cuda_join crema_cuda_fake)
add_test(NAME cuda/join_on_fake COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_join.sh
  $<TARGET_FILE:crema_cli> ${PROJECT_SOURCE_DIR} $<TARGET_FILE:cuda_join>)
set_tests_properties(cuda/join_on_fake PROPERTIES ENVIRONMENT "${on_fake}" TIMEOUT 120)
if(TARGET crema_python)
  # Without NumPy or protobuf the package cannot be tested (77). The tests themselves skip where there is no NCCL or
  # no device: here they are imitated, so that one which skips has not found them, and fails.
  foreach(part nccl graphs)
    add_test(NAME cuda/python_${part}_on_fake COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/python/run.sh
      ${PROJECT_BINARY_DIR}/python -v test_${part})
    set_tests_properties(cuda/python_${part}_on_fake PROPERTIES ENVIRONMENT "${on_fake}" TIMEOUT 120
      SKIP_RETURN_CODE 77 FAIL_REGULAR_EXPRESSION "skipped")
  endforeach()
endif()
set_tests_properties(cuda/kernels_on_fake cuda/windows_on_fake cuda/shapes_on_fake
  cuda/conformance_on_fake cuda/golden_on_fake cuda/train_on_fake PROPERTIES ENVIRONMENT "${on_fake}")

foreach(type ${half_types})
  add_test(NAME cuda/golden_${type}_on_fake COMMAND ${golden_${type}})
  set_tests_properties(cuda/golden_${type}_on_fake PROPERTIES ENVIRONMENT "${on_fake}")
endforeach()

# Fast math: convolutions are channels-last. In FLOAT without TF32, which the cases' tolerance excludes.
set(golden_fast_FLOAT golden -q -gpu 0 -math fast -pending ${CMAKE_CURRENT_SOURCE_DIR}/golden/pending.txt
  ${PROJECT_BINARY_DIR}/golden/layers ${PROJECT_BINARY_DIR}/golden/solvers)
foreach(type ${half_types})
  set(golden_fast_${type} golden -q -gpu 0 -math fast -type ${type} ${PROJECT_BINARY_DIR}/golden/layers)
endforeach()
foreach(type FLOAT ${half_types})
  add_test(NAME cuda/golden_fast_${type}_on_fake COMMAND ${golden_fast_${type}})
  set_tests_properties(cuda/golden_fast_${type}_on_fake PROPERTIES
    ENVIRONMENT "${on_fake};NVIDIA_TF32_OVERRIDE=0"
    FAIL_REGULAR_EXPRESSION "[1-9][0-9]* ops ran on the CPU")
endforeach()

# No layer of the golden cases needs the CPU, but for those that tests/golden/golden.c lists.
set_tests_properties(cuda/golden_on_fake cuda/golden_FLOAT16_on_fake cuda/golden_BFLOAT16_on_fake
  PROPERTIES FAIL_REGULAR_EXPRESSION "[1-9][0-9]* ops ran on the CPU")

# A program that finds the fake libraries' functions for tests.
function(add_fake_test name)
  add_executable(cuda_${name} ${CMAKE_CURRENT_SOURCE_DIR}/cuda/${name}.c)
  add_cuda_test(cuda_${name})
  target_link_libraries(cuda_${name} PRIVATE ${CMAKE_DL_LIBS})
  add_dependencies(cuda_${name} crema_cuda_fake)
  add_test(NAME cuda/${name}_on_fake COMMAND cuda_${name})
  set_tests_properties(cuda/${name}_on_fake PROPERTIES ENVIRONMENT "${on_fake}")
endfunction()
# How the plug-in behaves towards others in the process: devices, threads, errors. Once as it is, and
# with libraries that are there and do not start.
add_fake_test(runtime)

# Passes that are captured in graphs.
add_fake_test(graphs)
add_test(NAME cuda/graphs_cli_on_fake COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_graphs.sh
  $<TARGET_FILE:crema_cli> ${PROJECT_SOURCE_DIR})
set_tests_properties(cuda/graphs_cli_on_fake PROPERTIES ENVIRONMENT "${on_fake}" TIMEOUT 120)

# Which of cuDNN's algorithms is taken, by how much memory there is; handles.
add_fake_test(algorithms)
add_test(NAME cuda/version_on_fake COMMAND cuda_algorithms another_version)
set_tests_properties(cuda/version_on_fake PROPERTIES ENVIRONMENT
  "${on_fake};FAKE_CUDNN_VERSION=8900")

# What exact and fast math request of cuDNN and cuBLASLt.
add_fake_test(math)
target_include_directories(cuda_math SYSTEM PRIVATE ${cuda_includes})

# Channels-last convolutions and the layers between them; how much a training step reorders.
add_fake_test(layouts)
set_property(TEST cuda/layouts_on_fake APPEND PROPERTY ENVIRONMENT NVIDIA_TF32_OVERRIDE=0)
add_test(NAME cuda/reorders_on_fake COMMAND cuda_layouts ${PROJECT_SOURCE_DIR}/models)
set_tests_properties(cuda/reorders_on_fake PROPERTIES ENVIRONMENT "${on_fake};FAKE_CUDA_NO_WORK=1")

# How many kernels and library calls a training step starts.
add_executable(cuda_launches ${CMAKE_CURRENT_LIST_DIR}/launches.c)
add_cuda_test(cuda_launches)
add_dependencies(cuda_launches crema_cuda_fake)
add_test(NAME cuda/launches_on_fake COMMAND cuda_launches ${PROJECT_SOURCE_DIR}/models)
set_tests_properties(cuda/launches_on_fake PROPERTIES ENVIRONMENT "${on_fake};FAKE_CUDA_NO_WORK=1")

# Without the libraries: another cuDNN, or one that does not start, makes convolutions matrix
# products, and without cuBLASLt too (a library of that name that has none of its functions, or one
# that does not start) they run on the CPU. Found by CREMA_CUDA_PATH in the folders of Python packages.
add_fake(fake_bare cublasLt 13 fake_cudnn ${fake_dir}/bare)
set(packages ${PROJECT_BINARY_DIR}/cuda/packages)
foreach(part driver:cuda_driver cublaslt:cu13 cudnn:cudnn nccl:nccl)
  string(REPLACE ":" ";" part ${part})
  list(GET part 0 name)
  list(GET part 1 folder)
  add_custom_command(TARGET fake_${name} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E make_directory ${packages}/${folder}/lib
    COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:fake_${name}>
            ${packages}/${folder}/lib/$<TARGET_SONAME_FILE_NAME:fake_${name}>)
endforeach()
function(add_golden_without name)
  add_test(NAME cuda/golden_${name} COMMAND ${golden_run})
  set_tests_properties(cuda/golden_${name} PROPERTIES ENVIRONMENT "${on_fake};${ARGN}")
endfunction()
add_golden_without(without_cudnn FAKE_CUDNN_VERSION=8900)
add_golden_without(broken_cudnn FAKE_CUDNN_STATUS=1008)
add_golden_without(without_libraries LD_LIBRARY_PATH=${fake_dir}/bare:${fake_dir}
  FAKE_CUDNN_VERSION=8900)
add_golden_without(broken_libraries FAKE_CUBLASLT_STATUS=1 FAKE_CUDNN_STATUS=1001)

# The archive that scripts/gpu_pack.sh makes, run as on another machine.
add_test(NAME cuda/kit_on_fake COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_kit.sh ${PROJECT_SOURCE_DIR}
  ${PROJECT_BINARY_DIR} 0)
set_tests_properties(cuda/kit_on_fake PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900
  ENVIRONMENT "${on_fake};CREMA_CUDA_PATH=${packages}")

# If the plug-in of another build is found, these tests are skipped: their output has the library's message.
get_property(fake_tests DIRECTORY PROPERTY TESTS)
list(FILTER fake_tests INCLUDE REGEX "^cuda/.*_(on_fake$|without_|broken_)")
set_tests_properties(${fake_tests} PROPERTIES SKIP_REGULAR_EXPRESSION "belongs to another version of crema")
