# Opens the shared library itself.
add_executable(unload ${CMAKE_CURRENT_LIST_DIR}/unload.c)
target_include_directories(unload PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(unload PRIVATE crema_options Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(unload PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_dependencies(unload crema_shared)
add_test(NAME core/unload COMMAND unload $<TARGET_FILE:crema_shared>)
