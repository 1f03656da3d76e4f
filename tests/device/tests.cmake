# The rows that ask for a device, on each kind of device. The last one runs where the CUDA plug-in is
# built, and is skipped where there is no GPU.
add_executable(device_rows ${CMAKE_CURRENT_LIST_DIR}/device_rows.c)
target_include_directories(device_rows PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(device_rows PRIVATE crema_internal PkgConfig::CMOCKA)
set_target_properties(device_rows PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
foreach(device cpu sim)
  add_test(NAME device/rows_${device} COMMAND device_rows ${device})
  set_tests_properties(device/rows_${device} PROPERTIES ENVIRONMENT "CREMA_SIM=devices=2,races=1")
endforeach()
if(CREMA_CUDA)
  add_test(NAME device/rows_cuda COMMAND device_rows cuda)
  set_tests_properties(device/rows_cuda PROPERTIES LABELS gpu SKIP_RETURN_CODE 77
    ENVIRONMENT "CREMA_CUDA_PLUGIN=$<TARGET_FILE:crema_cuda>")
  # The fake runtime is there where cuDNN's header was found.
  if(TARGET crema_cuda_fake)
    add_test(NAME device/rows_cuda_on_fake COMMAND device_rows cuda)
    set_tests_properties(device/rows_cuda_on_fake PROPERTIES ENVIRONMENT
      "CREMA_CUDA_PLUGIN=$<TARGET_FILE:crema_cuda_fake>;LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/cuda/fake")
  endif()
endif()
