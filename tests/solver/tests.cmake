# Write HDF5 files of their own.
target_link_libraries(test_solver_snapshot PRIVATE PkgConfig::HDF5)
target_link_libraries(test_solver_parallel_data PRIVATE PkgConfig::HDF5)
# Memory that runs out (tests/no_memory.h).
foreach(function malloc calloc realloc aligned_alloc posix_memalign strdup strndup)
  target_link_options(test_solver_no_memory PRIVATE -Wl,--wrap=${function})
endforeach()
# The test tells the time.
target_link_options(test_solver_report PRIVATE -Wl,--wrap=cr_clock_seconds)
# What is done about a failure is counted.
foreach(function cr_team_run crema_context_finish cr_replica_rest)
  target_link_options(test_solver_parallel_failures PRIVATE -Wl,--wrap=${function})
endforeach()
# What is to be written is looked at.
target_link_options(test_solver_epochs PRIVATE -Wl,--wrap=cr_file_draft_check)
# Threads cannot be started.
target_link_options(test_solver_parallel_ranks PRIVATE -Wl,--wrap=cr_thread_start)
# Processes without a GPU.
foreach(function cr_backend_load cr_exchange_find_nccl cr_world_join_nccl)
  target_link_options(test_solver_join PRIVATE -Wl,--wrap=${function})
endforeach()
# Times and links are given.
foreach(function cr_clock_seconds crema_context_finish cr_replica_forward cr_net_backward_watched
        cr_updater_run cr_probe_links cr_plan_tell cr_world_agree)
  target_link_options(test_solver_plan PRIVATE -Wl,--wrap=${function})
endforeach()
# The process is killed at a renaming.
target_link_options(test_solver_model_file PRIVATE -Wl,--wrap=rename)
# Many snapshots, none of which need outlive a power cut.
target_link_options(test_solver_stops PRIVATE -Wl,--wrap=fsync)
target_link_options(test_solver_carry_on PRIVATE -Wl,--wrap=fsync)
# Processes cannot be created.
target_link_options(test_solver_hdf5_damage PRIVATE -Wl,--wrap=fork)
# Sums and updates are counted.
foreach(function cr_exchange_sum cr_updater_run cr_updater_run_bucket)
  target_link_options(test_solver_parallel_buckets PRIVATE -Wl,--wrap=${function})
endforeach()
# What PyTorch's optimizers lead to.
target_compile_definitions(test_solver_trajectories PRIVATE
  TRAJECTORIES="${CMAKE_CURRENT_LIST_DIR}/trajectories.txt")
# Processes that mpirun starts (tests/parallel/mpi.sh).
add_executable(solver_ranks ${CMAKE_CURRENT_LIST_DIR}/solver_ranks.c)
target_include_directories(solver_ranks PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(solver_ranks PRIVATE crema_internal PkgConfig::CMOCKA)
target_link_options(solver_ranks PRIVATE -Wl,--wrap=cr_world_find_nccl
  -Wl,--wrap=cr_processors_share)
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
