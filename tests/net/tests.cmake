# Writes HDF5 files of its own.
target_link_libraries(test_net_weights PRIVATE PkgConfig::HDF5)
