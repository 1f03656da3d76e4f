# One test compiles small units and expects them to be refused.
target_compile_definitions(test_memory_primitives PRIVATE CREMA_C_COMPILER="${CMAKE_C_COMPILER}")
