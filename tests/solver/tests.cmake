# Write HDF5 files of their own.
target_link_libraries(test_solver_snapshot PRIVATE PkgConfig::HDF5)
target_link_libraries(test_solver_parallel_data PRIVATE PkgConfig::HDF5)
# What is done about a failure is counted.
foreach(function cr_replica_threads_run crema_context_finish)
  target_link_options(test_solver_parallel_failures PRIVATE -Wl,--wrap=${function})
endforeach()
# The parts of an iteration take given times.
foreach(function crema_context_finish cr_replica_forward cr_net_backward_watched cr_updater_run)
  target_link_options(test_solver_plan PRIVATE -Wl,--wrap=${function})
endforeach()
# Updates are counted.
foreach(function cr_updater_run cr_updater_run_bucket)
  target_link_options(test_solver_parallel_buckets PRIVATE -Wl,--wrap=${function})
endforeach()
# What PyTorch's optimizers lead to.
target_compile_definitions(test_solver_trajectories PRIVATE
  TRAJECTORIES="${CMAKE_CURRENT_LIST_DIR}/trajectories.txt")
# Processes that mpirun starts (tests/parallel/mpi.sh).
add_executable(solver_ranks ${CMAKE_CURRENT_LIST_DIR}/solver_ranks.c)
target_include_directories(solver_ranks PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(solver_ranks PRIVATE crema_internal PkgConfig::CMOCKA)
set_target_properties(solver_ranks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
function(crema_solver_ranks_test count what)
  add_test(NAME solver/ranks_${what}_${count} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/parallel/mpi.sh
    $<TARGET_FILE:solver_ranks> ${count} ${what})
  # 77: there is no mpirun here.
  set_tests_properties(solver/ranks_${what}_${count} PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
  # What is known of Open MPI, as in tests/parallel.
  set(known ${CMAKE_CURRENT_SOURCE_DIR}/parallel)
  if(CREMA_SANITIZE MATCHES "address")
    set_property(TEST solver/ranks_${what}_${count} APPEND PROPERTY ENVIRONMENT
      "ASAN_OPTIONS=fast_unwind_on_malloc=0"
      "LSAN_OPTIONS=suppressions=${known}/leaks.supp:print_suppressions=0")
  endif()
endfunction()
crema_solver_ranks_test(2 all)
crema_solver_ranks_test(3 all)
crema_solver_ranks_test(2 apart)
crema_solver_ranks_test(2 starved)
crema_solver_ranks_test(2 refused)
crema_solver_ranks_test(3 refused)
crema_solver_ranks_test(2 nccl)
crema_solver_ranks_test(2 broken)
crema_solver_ranks_test(3 lost)
