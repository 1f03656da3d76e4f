# A short run of each fuzz target from its corpus, the same for the same seed; long runs:
# scripts/fuzz.py.
set(corpus_dir ${PROJECT_BINARY_DIR}/corpus)
crema_unpack(fuzz_corpus ${PROJECT_SOURCE_DIR}/fuzz/corpus.tar.zst ${corpus_dir})

# Targets that make files, nets or pictures take longer per input.
set(fuzz_slow hdf5 leveldb state solver net model onnx jpeg png)
set(corpus_of_model net)
foreach(name ${CREMA_FUZZ_NAMES})
  crema_fuzz_target(fuzz_run_${name} ${name} ${CMAKE_CURRENT_LIST_DIR}/driver.c)
  set_target_properties(fuzz_run_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set(runs 20000)
  if(name IN_LIST fuzz_slow)
    set(runs 1000)
  endif()
  set(corpus ${name})
  if(DEFINED corpus_of_${name})
    set(corpus ${corpus_of_${name}})
  endif()
  add_test(NAME fuzz/${name} COMMAND fuzz_run_${name} ${runs} 0 ${corpus_dir}/${corpus})
  # The same as in scripts/fuzz.py; builds without sanitizers ignore them.
  set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT 120 LABELS fuzz ENVIRONMENT
    "ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=256;LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/fuzz/leaks.supp:print_suppressions=0")
endforeach()
