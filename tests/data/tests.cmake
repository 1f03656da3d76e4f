# What several tests of the data room share, and tests of the tools.
foreach(name augment_layers db epoch mat_write pipeline shared_layers db_leveldb image_data_layer window_data_layer annotated_data_layer hdf5_layers image image_blob reader datum_source data_layer)
  target_sources(test_data_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/data/fixture.c)
endforeach()
foreach(name box_data roi_data image_seg_data video_data video_clips input_group data_sharing data_cache data_device batch_loader_device db_faults lists short_batches)
  target_sources(test_data_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/data/fixture.c)
endforeach()
foreach(name db_replaced record_walk pipeline_device input_walk hdf5_set no_memory pipeline_edges leveldb_files opencv pose)
  target_sources(test_data_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/data/fixture.c)
endforeach()
add_test(NAME golden/models COMMAND golden -q ${PROJECT_SOURCE_DIR}/models/squeezenet_v1.0)
add_test(NAME data/tools COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/data/tools.sh
  $<TARGET_FILE:crema_cli> ${PROJECT_SOURCE_DIR})
set_tests_properties(data/tools PROPERTIES TIMEOUT 300)
add_test(NAME data/interchange COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/data/interchange.sh
  $<TARGET_FILE:crema_cli> ${PROJECT_SOURCE_DIR})
set_tests_properties(data/interchange PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
# The address sanitizer's allocator does not survive a fork beside running threads, as the C library's
# does: with it, HDF5 files are read in this process where several solvers run.
if(CREMA_SANITIZE MATCHES "address")
  set_property(TEST data/shared_layers APPEND PROPERTY ENVIRONMENT CREMA_HDF5_FORK=0)
endif()
