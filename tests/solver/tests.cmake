# Writes HDF5 files of its own.
target_link_libraries(test_solver_snapshot PRIVATE PkgConfig::HDF5)
