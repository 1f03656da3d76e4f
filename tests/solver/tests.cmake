# Write HDF5 files of their own.
target_link_libraries(test_solver_snapshot PRIVATE PkgConfig::HDF5)
target_link_libraries(test_solver_parallel_data PRIVATE PkgConfig::HDF5)
# Memory that runs out (tests/no_memory.h).
foreach(function malloc calloc realloc aligned_alloc posix_memalign strdup strndup)
  target_link_options(test_solver_no_memory PRIVATE -Wl,--wrap=${function})
endforeach()
# The test tells the time.
target_link_options(test_solver_report PRIVATE -Wl,--wrap=cr_clock_seconds)
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
