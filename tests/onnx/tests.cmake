crema_unpack(onnx_cases ${CMAKE_CURRENT_LIST_DIR}/cases.tar.zst ${PROJECT_BINARY_DIR}/onnx_cases)

# Comparisons with ONNX Runtime and PyTorch, whose Python packages `make test-onnx` installs; without them,
# exit code 77.
if(TARGET crema_python AND NOT CREMA_SANITIZE)
  foreach(task layers operators models golden nodes torchvision)
    add_test(NAME onnx/with_${task} COMMAND ${PROJECT_SOURCE_DIR}/scripts/test_onnx.sh ${PROJECT_BINARY_DIR} ${task})
    set_tests_properties(onnx/with_${task} PROPERTIES LABELS onnx TIMEOUT 3600 SKIP_RETURN_CODE 77)
  endforeach()
endif()
