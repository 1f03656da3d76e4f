target_sources(test_ops_kernels PRIVATE
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_cases.c
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_reference.c
  ${CMAKE_CURRENT_LIST_DIR}/op_reference_rest.c
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_run.c
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/op_problem.c)
target_include_directories(test_ops_kernels PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/ops)
# Threads that wait without spinning: the machine may have fewer cores than the test has threads.
set_tests_properties(ops/kernels PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
