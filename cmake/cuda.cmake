# The CUDA plug-in, libcrema-cuda.so: built beside the library, opened by it at run time. nvcc is
# called directly, because CMake's own CUDA language of the oldest supported version does not know
# the newest toolkits. The runtime is linked statically; the driver, cuBLASLt and cuDNN are opened at
# run time, so that the plug-in itself depends on none of them.
set(CREMA_CUDA_FLAGS
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
  CACHE STRING "What nvcc generates code for")

find_program(CREMA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT CREMA_NVCC)
  message(FATAL_ERROR "CREMA_CUDA is on, but nvcc was not found; set CUDA_HOME")
endif()
get_filename_component(cuda_nvcc ${CREMA_NVCC} REALPATH)
get_filename_component(cuda_root ${cuda_nvcc} DIRECTORY)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)
find_path(CREMA_CUDA_INCLUDE cuda_runtime_api.h HINTS ${cuda_root}/include
  ${cuda_root}/targets/x86_64-linux/include ${cuda_root}/targets/sbsa-linux/include)
find_path(CREMA_CUDNN_INCLUDE cudnn.h HINTS ${CREMA_CUDA_INCLUDE})
find_library(CREMA_CUDART_STATIC cudart_static HINTS ${cuda_root}/lib64 ${cuda_root}/lib
  ${cuda_root}/targets/x86_64-linux/lib ${cuda_root}/targets/sbsa-linux/lib)
foreach(needed CREMA_CUDA_INCLUDE CREMA_CUDNN_INCLUDE CREMA_CUDART_STATIC)
  if(NOT ${needed})
    message(FATAL_ERROR "CREMA_CUDA is on, but ${needed} was not found (toolkit at ${cuda_root}; "
      "cuDNN 9's headers are needed too)")
  endif()
endforeach()

set(cuda_dir ${PROJECT_SOURCE_DIR}/src/device/cuda)
set(cuda_object ${PROJECT_BINARY_DIR}/cuda/launch.o)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cuda)
add_custom_command(
  OUTPUT ${cuda_object}
  COMMAND ${CREMA_NVCC} -std=c++17 -O3 ${CREMA_CUDA_FLAGS} -Werror all-warnings
          -Xcompiler -fPIC,-Wall,-Wextra,-fvisibility=hidden,-fno-exceptions,-fno-rtti
          -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_SOURCE_DIR}/src
          -MD -MF ${cuda_object}.d -c ${cuda_dir}/launch.cu -o ${cuda_object}
  DEPENDS ${cuda_dir}/launch.cu
  DEPFILE ${cuda_object}.d
  COMMENT "Building CUDA kernels"
  VERBATIM COMMAND_EXPAND_LISTS)

file(GLOB cuda_sources CONFIGURE_DEPENDS ${cuda_dir}/*.c)
add_library(crema_cuda MODULE ${cuda_sources} ${cuda_object})
set_target_properties(crema_cuda PROPERTIES
  OUTPUT_NAME crema-cuda C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
target_include_directories(crema_cuda PRIVATE ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_SOURCE_DIR}/src)
target_include_directories(crema_cuda SYSTEM PRIVATE ${CREMA_CUDA_INCLUDE} ${CREMA_CUDNN_INCLUDE})
# nvcc's launch code guards its statics with two functions of the C++ runtime.
target_link_libraries(crema_cuda PRIVATE crema_options ${CREMA_CUDART_STATIC} Threads::Threads rt
  ${CMAKE_DL_LIBS} stdc++)
target_link_options(crema_cuda PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
install(TARGETS crema_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
