# The OpenCL plug-in, libcrema-opencl.so: built beside the library where OpenCL's headers are, opened by it at run time.
# OpenCL's loader and CLBlast are opened at run time, so that the plug-in itself depends on neither.
find_path(CREMA_OPENCL_INCLUDE CL/cl.h)
if(CREMA_OPENCL STREQUAL "AUTO" AND NOT CREMA_OPENCL_INCLUDE)
  message(STATUS "OpenCL's headers were not found: no OpenCL plug-in")
  return()
endif()
if(NOT CREMA_OPENCL_INCLUDE)
  message(FATAL_ERROR "CREMA_OPENCL is on, but CL/cl.h was not found; install opencl-headers")
endif()

# The device functions and crema's own products as C strings.
set(opencl_dir ${PROJECT_SOURCE_DIR}/src/device/opencl)
set(opencl_embed ${PROJECT_BINARY_DIR}/opencl)
file(GLOB opencl_texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/gpu/kernels/*.h ${opencl_dir}/*.cl
  ${PROJECT_SOURCE_DIR}/src/device/backend/op_enums.h)
foreach(embedded "opencl_source.inc|device/opencl/prelude.cl|device/gpu/kernels/device_functions.h"
    "opencl_product.inc|device/opencl/product.cl")
  string(REPLACE "|" ";" embedded "${embedded}")
  list(POP_FRONT embedded out)
  string(REPLACE ";" "|" files "${embedded}")
  add_custom_command(OUTPUT ${opencl_embed}/${out}
    COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}/src -D "FILES=${files}" -D OUT=${opencl_embed}/${out}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_opencl.cmake
    DEPENDS ${opencl_texts} ${PROJECT_SOURCE_DIR}/cmake/embed_opencl.cmake
    VERBATIM)
endforeach()

file(GLOB opencl_sources CONFIGURE_DEPENDS ${opencl_dir}/*.c)
add_library(crema_opencl MODULE ${opencl_sources} ${gpu_sources} ${opencl_embed}/opencl_source.inc
  ${opencl_embed}/opencl_product.inc)
set_target_properties(crema_opencl PROPERTIES
  OUTPUT_NAME crema-opencl C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
target_include_directories(crema_opencl PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
  ${opencl_embed})
target_include_directories(crema_opencl SYSTEM PRIVATE ${CREMA_OPENCL_INCLUDE})
target_link_libraries(crema_opencl PRIVATE crema_options Threads::Threads m ${CMAKE_DL_LIBS})
if(NOT APPLE AND NOT CREMA_SANITIZE)
  target_link_options(crema_opencl PRIVATE -Wl,--no-undefined)
endif()
install(TARGETS crema_opencl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
