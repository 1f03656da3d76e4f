# The sources that each GPU plug-in has: the rows, and what needs nothing else of the library.
file(GLOB gpu_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/gpu/*.c)
list(APPEND gpu_sources ${PROJECT_SOURCE_DIR}/src/core/types.c
  ${PROJECT_SOURCE_DIR}/src/device/backend/op_check.c
  ${PROJECT_SOURCE_DIR}/src/device/backend/op_desc.c)
