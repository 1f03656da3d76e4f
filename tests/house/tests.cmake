find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME house/gates COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/gates.py)
add_test(NAME house/architecture COMMAND ${Python3_EXECUTABLE}
  ${PROJECT_SOURCE_DIR}/scripts/architecture_svg.py --check)
add_test(NAME house/rows COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/conformance.py
  --check)
add_test(NAME house/unused COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/callgraph.py
  --unused)
add_test(NAME house/layers COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/layer_proofs.py
  --check)
add_test(NAME house/layer_proofs COMMAND ${Python3_EXECUTABLE}
  ${CMAKE_CURRENT_LIST_DIR}/layer_proofs_test.py)
add_test(NAME house/conformance COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/conformance_test.py)
add_test(NAME house/headers COMMAND ${CMAKE_CURRENT_LIST_DIR}/headers.sh
  ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
foreach(where no_openmp clang)
  add_test(NAME house/${where} COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/other_compilers.py ${CMAKE_BINARY_DIR} ${where})
endforeach()
# Skipped where there is no Clang: users build with GCC, and only `setup.sh --dev` installs both.
set_tests_properties(house/clang PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME house/fails COMMAND ${CMAKE_COMMAND} -E false)
set_tests_properties(house/fails PROPERTIES WILL_FAIL TRUE) # proves that the runner sees failures
add_test(NAME house/models COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/write_models.py
  -check)
add_test(NAME house/dense_models
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/write_dense_models.py -check)
add_test(NAME house/benchmarks COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/benchmark_plots.py
  --check)
add_test(NAME house/mutate COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/mutate_test.py)
add_test(NAME house/language COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/language.py)
add_test(NAME house/structure COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/structure.py)
