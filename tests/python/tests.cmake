# The suite of the Python package, where it is built; exit code 77 where no Python has NumPy and protobuf.
if(TARGET crema_python)
  add_test(NAME python/suite COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh ${PROJECT_BINARY_DIR}/python)
  set_tests_properties(python/suite PROPERTIES SKIP_RETURN_CODE 77)
endif()
