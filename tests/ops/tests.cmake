# Cases, the reference and what runs a row on them, shared by the tests of kernel rows.
foreach(target test_ops_kernels test_ops_windows)
  target_sources(${target} PRIVATE
    ${CMAKE_CURRENT_LIST_DIR}/op_cases.c
    ${CMAKE_CURRENT_LIST_DIR}/op_check.c
    ${CMAKE_CURRENT_LIST_DIR}/op_problem.c
    ${CMAKE_CURRENT_LIST_DIR}/op_reference.c
    ${CMAKE_CURRENT_LIST_DIR}/op_reference_rest.c
    ${CMAKE_CURRENT_LIST_DIR}/op_run.c)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_LIST_DIR})
endforeach()
# Threads that wait without spinning: the machine may have fewer cores than the test has threads.
set_tests_properties(ops/kernels ops/windows PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
