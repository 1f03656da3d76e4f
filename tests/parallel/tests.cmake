# Processes that mpirun starts: mpi.sh runs mpi_ranks, as many as the first number says.
add_executable(mpi_ranks ${CMAKE_CURRENT_LIST_DIR}/mpi_ranks.c)
target_include_directories(mpi_ranks PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(mpi_ranks PRIVATE crema_internal PkgConfig::CMOCKA)
set_target_properties(mpi_ranks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
function(crema_mpi_test count what)
  add_test(NAME parallel/mpi_${what}_${count} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/parallel/mpi.sh
    $<TARGET_FILE:mpi_ranks> ${count} ${what})
  # 77: there is no mpirun here.
  set_tests_properties(parallel/mpi_${what}_${count} PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
endfunction()
foreach(count 1 2 3 4)
  crema_mpi_test(${count} all)
endforeach()
foreach(what prepare sum copy weights broadcast compute thread leave kill)
  crema_mpi_test(3 ${what})
endforeach()
# As in containers that let no process read another's memory: each sends its own when it is asked.
foreach(what freed-sum freed-weights freed-kill)
  crema_mpi_test(3 ${what})
  set_tests_properties(parallel/mpi_${what}_3 PROPERTIES
    ENVIRONMENT "OMPI_MCA_btl_vader_single_copy_mechanism=none")
endforeach()
crema_mpi_test(2 spans)
crema_mpi_test(2 signals-USR1)
# As between hosts, where a process that ends closes the connections of the others.
add_test(NAME parallel/mpi_sum_tcp_3 COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/parallel/mpi.sh
  $<TARGET_FILE:mpi_ranks> 3 sum)
set_tests_properties(parallel/mpi_sum_tcp_3 PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77
  ENVIRONMENT "OMPI_MCA_btl=tcp,self")
# A libmpi.so.40 that is not Open MPI's.
add_library(other_mpi MODULE ${CMAKE_CURRENT_LIST_DIR}/other_mpi.c)
set_target_properties(other_mpi PROPERTIES PREFIX "" OUTPUT_NAME libmpi SUFFIX .so.40
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/other_mpi)
add_dependencies(test_parallel_world other_mpi)
# What ranks do with queues is noted.
foreach(function cr_queue_push cr_queue_pop)
  target_link_options(test_parallel_tree_model PRIVATE -Wl,--wrap=${function})
endforeach()
# Open MPI's own leaks are known by the library on the stack, which only the thorough unwinder finds.
if(CREMA_SANITIZE MATCHES "address")
  get_property(parallel_tests DIRECTORY PROPERTY TESTS)
  list(FILTER parallel_tests INCLUDE REGEX
    "^(parallel/mpi_|cli/(plan|processes|rank_ends|resume_ranks)$|examples/detection$)")
  set_property(TEST ${parallel_tests} APPEND PROPERTY ENVIRONMENT
    "ASAN_OPTIONS=fast_unwind_on_malloc=0"
    "LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/leaks.supp:print_suppressions=0")
endif()
