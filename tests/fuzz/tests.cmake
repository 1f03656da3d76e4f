# A short deterministic-by-seed run of each fuzz target from its corpus; long runs: scripts/fuzz.py.
set(corpus_archive ${PROJECT_SOURCE_DIR}/fuzz/corpus.tar.zst)
set(corpus_dir ${PROJECT_BINARY_DIR}/corpus)
add_custom_command(OUTPUT ${corpus_dir}/stamp
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${corpus_dir}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${corpus_dir}
  COMMAND ${CMAKE_COMMAND} -E chdir ${corpus_dir} tar --zstd -xf ${corpus_archive}
  COMMAND ${CMAKE_COMMAND} -E touch ${corpus_dir}/stamp
  DEPENDS ${corpus_archive})
add_custom_target(fuzz_corpus ALL DEPENDS ${corpus_dir}/stamp)

# Those that make files, nets or decoded pictures for each input take longer for one.
set(fuzz_slow hdf5 leveldb state solver net jpeg png)
foreach(name ${CREMA_FUZZ_NAMES})
  crema_fuzz_target(fuzz_run_${name} ${name} ${CMAKE_CURRENT_LIST_DIR}/driver.c)
  set_target_properties(fuzz_run_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set(runs 20000)
  if(name IN_LIST fuzz_slow)
    set(runs 1000)
  endif()
  add_test(NAME fuzz/${name} COMMAND fuzz_run_${name} ${runs} 0 ${corpus_dir}/${name})
  # As scripts/fuzz.py has it; without sanitizers nobody reads these.
  set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT 120 LABELS fuzz ENVIRONMENT
    "ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=256;LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/fuzz/leaks.supp:print_suppressions=0")
endforeach()
