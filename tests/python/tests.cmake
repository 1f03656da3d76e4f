# The suite of the Python package, where it is built; exit code 77 where no Python has NumPy and protobuf.
if(TARGET crema_python AND NOT CREMA_SANITIZE MATCHES thread)
  add_test(NAME python/suite COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh ${PROJECT_BINARY_DIR}/python)
  set_tests_properties(python/suite PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
  if(CREMA_SANITIZE MATCHES address)
    # The interpreter is not built with the sanitizer, whose library must come first; what the interpreter
    # keeps until its end is no loss, and memory that is kept for a while after it was freed no growth.
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libasan.so
      OUTPUT_VARIABLE asan_library OUTPUT_STRIP_TRAILING_WHITESPACE)
    set_tests_properties(python/suite PROPERTIES ENVIRONMENT
      "LD_PRELOAD=${asan_library};ASAN_OPTIONS=detect_leaks=0;CREMA_LEAK_ROUNDS=0")
  endif()
endif()
