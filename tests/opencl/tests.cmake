# The OpenCL plug-in over PoCL, which runs OpenCL on the CPU: the programs of tests/cuda, the golden cases and a
# training. Skipped where PoCL is not installed. `make check` has the long ones.
if(NOT TARGET crema_opencl)
  return()
endif()
set(opencl_two "CREMA_OPENCL=Portable" "CREMA_OPENCL_PLUGIN=$<TARGET_FILE:crema_opencl>" "CREMA_OPENCL_BLAS=own"
  "CREMA_OPENCL_CACHE=${PROJECT_BINARY_DIR}/opencl/cache" "POCL_CACHE_DIR=${PROJECT_BINARY_DIR}/opencl/pocl"
  "POCL_DEVICES=pthread pthread" "OMP_WAIT_POLICY=passive")

function(add_opencl_test name)
  add_test(NAME opencl/${name} COMMAND ${ARGN})
  set_tests_properties(opencl/${name} PROPERTIES ENVIRONMENT "${opencl_two}" SKIP_RETURN_CODE 77)
endfunction()

foreach(what kernels windows shapes train exchange)
  add_dependencies(cuda_${what} crema_opencl)
endforeach()
add_opencl_test(conformance device_conformance opencl)
add_opencl_test(rows device_rows opencl)
add_opencl_test(kernels cuda_kernels)
add_opencl_test(windows cuda_windows)
add_opencl_test(shapes cuda_shapes)
add_opencl_test(train cuda_train small)
add_opencl_test(exchange cuda_exchange)
set_property(TEST opencl/exchange APPEND PROPERTY ENVIRONMENT "POCL_DEVICES=pthread pthread pthread")

set(opencl_golden golden -q -gpu 0 -pending ${CMAKE_CURRENT_SOURCE_DIR}/golden/pending.txt)
add_opencl_test(golden ${opencl_golden} ${PROJECT_BINARY_DIR}/golden/layers ${PROJECT_BINARY_DIR}/golden/solvers)
foreach(type FLOAT16 BFLOAT16)
  add_opencl_test(golden_${type} ${opencl_golden} -type ${type} ${PROJECT_BINARY_DIR}/golden/layers)
endforeach()
# No layer of the golden cases needs the CPU, but for those that tests/golden/golden.c lists.
set_tests_properties(opencl/golden opencl/golden_FLOAT16 opencl/golden_BFLOAT16
  PROPERTIES FAIL_REGULAR_EXPRESSION "[1-9][0-9]* ops ran on the CPU")

# As on devices without double precision: float32 sums.
add_opencl_test(without_double cuda_kernels)
add_opencl_test(without_double_train cuda_train small)
foreach(name without_double without_double_train)
  set_property(TEST opencl/${name} APPEND PROPERTY ENVIRONMENT CREMA_OPENCL_DOUBLE=0)
endforeach()

# The kernels for single element types, which other tests leave to GPUs.
foreach(what kernels shapes)
  add_opencl_test(forms_${what} cuda_${what})
  set_property(TEST opencl/forms_${what} APPEND PROPERTY ENVIRONMENT CREMA_OPENCL_FORMS=1)
endforeach()

# Products by CLBlast, which compiles its kernels for seconds.
add_opencl_test(clblast cuda_train small)
set_property(TEST opencl/clblast APPEND PROPERTY ENVIRONMENT CREMA_OPENCL_BLAS=clblast)

# A loader that fails, waits and watches on request, in front of the system's.
find_library(CREMA_OPENCL_LOADER libOpenCL.so.1)
if(CREMA_OPENCL_LOADER)
  add_library(faulty_opencl MODULE ${CMAKE_CURRENT_LIST_DIR}/faulty_opencl.c)
  set_target_properties(faulty_opencl PROPERTIES PREFIX "" OUTPUT_NAME libOpenCL.so.1 SUFFIX ""
    C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/opencl/faulty)
  target_include_directories(faulty_opencl SYSTEM PRIVATE ${CREMA_OPENCL_INCLUDE})
  target_link_libraries(faulty_opencl PRIVATE crema_options ${CREMA_OPENCL_LOADER} ${CMAKE_DL_LIBS})
  target_link_options(faulty_opencl PRIVATE -Wl,--no-as-needed)
  foreach(name faults prefetch memory)
    add_executable(opencl_${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
    add_cuda_test(opencl_${name})
    target_link_libraries(opencl_${name} PRIVATE ${CMAKE_DL_LIBS})
    target_compile_definitions(opencl_${name} PRIVATE CREMA_FAULTY_OPENCL="$<TARGET_FILE:faulty_opencl>")
    add_dependencies(opencl_${name} faulty_opencl crema_opencl)
    add_opencl_test(${name} opencl_${name})
    set_property(TEST opencl/${name} APPEND PROPERTY ENVIRONMENT
      "CREMA_OPENCL_PATH=${PROJECT_BINARY_DIR}/opencl/faulty")
  endforeach()
  target_sources(opencl_prefetch PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/data/fixture.c)
  add_opencl_test(train_faults ${CMAKE_CURRENT_LIST_DIR}/test_train_faults.sh $<TARGET_FILE:crema_cli>
    ${PROJECT_SOURCE_DIR})
  set_property(TEST opencl/train_faults APPEND PROPERTY ENVIRONMENT
    "CREMA_OPENCL_PATH=${PROJECT_BINARY_DIR}/opencl/faulty")
endif()

# The command.
add_opencl_test(cli ${CMAKE_CURRENT_LIST_DIR}/test_cli.sh $<TARGET_FILE:crema_cli> ${PROJECT_SOURCE_DIR})
# The cache of compiled kernels.
add_opencl_test(cache ${CMAKE_CURRENT_LIST_DIR}/test_cache.sh $<TARGET_FILE:crema_cli> ${PROJECT_SOURCE_DIR})
# The archive that scripts/gpu_pack.sh makes, run as on another machine.
add_opencl_test(kit ${CMAKE_CURRENT_SOURCE_DIR}/cuda/test_kit.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} opencl:0)
set_tests_properties(opencl/kit PROPERTIES TIMEOUT 1200)
