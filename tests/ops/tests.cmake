# Cases, the reference and what runs a row on them, shared by the tests of kernel rows.
foreach(target test_ops_kernels test_ops_windows test_ops_int8)
  target_sources(${target} PRIVATE
    ${CMAKE_CURRENT_LIST_DIR}/op_case.c
    ${CMAKE_CURRENT_LIST_DIR}/op_cases.c
    ${CMAKE_CURRENT_LIST_DIR}/op_cases_conv.c
    ${CMAKE_CURRENT_LIST_DIR}/op_gradients.c
    ${CMAKE_CURRENT_LIST_DIR}/op_check.c
    ${CMAKE_CURRENT_LIST_DIR}/op_problem.c
    ${CMAKE_CURRENT_LIST_DIR}/op_reasons.c
    ${CMAKE_CURRENT_LIST_DIR}/op_reference.c
    ${CMAKE_CURRENT_LIST_DIR}/op_reference_maps.c
    ${CMAKE_CURRENT_LIST_DIR}/op_reference_rest.c
    ${CMAKE_CURRENT_LIST_DIR}/op_run.c)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_LIST_DIR})
endforeach()
# Threads that wait without spinning: the machine may have fewer cores than the test has threads.
set_tests_properties(ops/kernels ops/windows ops/int8 PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
# Finite differences through the reference, which sanitizers make several times as slow.
if(CREMA_SANITIZE)
  set_tests_properties(ops/kernels PROPERTIES TIMEOUT 3600)
endif()
# Trials of oneDNN rows; with the code that the library has for other processors, too.
foreach(target test_ops_dnnl_rows test_ops_dnnl_types test_ops_dnnl_choices)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/dnnl_trial.c)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_LIST_DIR})
endforeach()
foreach(isa AVX2 AVX512_CORE)
  string(TOLOWER ${isa} name)
  add_test(NAME ops/dnnl_rows_${name} COMMAND test_ops_dnnl_rows)
  add_test(NAME ops/dnnl_types_${name} COMMAND test_ops_dnnl_types)
  add_test(NAME ops/dnnl_choices_${name} COMMAND test_ops_dnnl_choices)
  set_tests_properties(ops/dnnl_rows_${name} ops/dnnl_types_${name} ops/dnnl_choices_${name} PROPERTIES
    ENVIRONMENT "DNNL_MAX_CPU_ISA=${isa};ONEDNN_MAX_CPU_ISA=${isa};OMP_WAIT_POLICY=passive")
endforeach()
# Runs the command where the system refuses it something.
add_library(test_few_threads MODULE ${CMAKE_CURRENT_LIST_DIR}/few_threads.c)
target_link_libraries(test_few_threads PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(test_ops_refusals PRIVATE
  CREMA_FEW_THREADS="$<TARGET_FILE:test_few_threads>")
add_dependencies(test_ops_refusals crema_cli test_few_threads)
