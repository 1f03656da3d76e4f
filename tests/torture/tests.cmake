# The short forms of the torture; `make torture` runs the long ones.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_executable(torture_fault ${CMAKE_CURRENT_LIST_DIR}/fault.c)
target_link_libraries(torture_fault PRIVATE crema_options)
set_target_properties(torture_fault PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
foreach(part kill resume signals calls equality places)
  add_test(NAME torture/${part} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/run.py
    --short $<TARGET_FILE:crema_cli> $<TARGET_FILE:torture_fault> ${part})
  set_tests_properties(torture/${part} PROPERTIES LABELS torture TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()
add_custom_target(torture USES_TERMINAL
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/run.py $<TARGET_FILE:crema_cli>
    $<TARGET_FILE:torture_fault>
  COMMAND ${CMAKE_COMMAND} -E env CREMA_TORTURE_RESUMES=100 $<TARGET_FILE:test_solver_stops>
  COMMAND ${CMAKE_COMMAND} -E env CREMA_TEST_ALL_ALLOCATIONS=1 $<TARGET_FILE:test_solver_no_memory>
  DEPENDS crema_cli torture_fault test_solver_stops test_solver_no_memory)
