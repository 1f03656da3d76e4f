# The CUDA plug-in, libcrema-cuda.so: built beside the library, opened by it at run time. nvcc is
# called directly, because CMake's own CUDA language of the oldest supported version does not know
# the newest toolkits. The runtime is linked statically; the driver, cuBLASLt and cuDNN are opened at
# run time, so that the plug-in itself depends on none of them.
# Code of one generation (8.0) runs on all of it (8.6, 8.9); what comes after 9 is made from PTX when
# it is first loaded.
set(CREMA_CUDA_FLAGS -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80
  -gencode arch=compute_90,code=[sm_90,compute_90]
  CACHE STRING "What nvcc generates code for")
# Given on the command line they are words with spaces between them.
string(REPLACE ";" " " cuda_flags "${CREMA_CUDA_FLAGS}")
separate_arguments(cuda_flags UNIX_COMMAND "${cuda_flags}")

find_program(CREMA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT CREMA_NVCC)
  message(FATAL_ERROR "CREMA_CUDA is on, but nvcc was not found; set CUDA_HOME")
endif()
get_filename_component(cuda_nvcc ${CREMA_NVCC} REALPATH)
get_filename_component(cuda_root ${cuda_nvcc} DIRECTORY)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)
find_path(CREMA_CUDA_INCLUDE cuda_runtime_api.h HINTS ${cuda_root}/include
  ${cuda_root}/targets/x86_64-linux/include ${cuda_root}/targets/sbsa-linux/include)
find_path(CREMA_CUDNN_INCLUDE cudnn.h HINTS ${CREMA_CUDA_INCLUDE} $ENV{CUDNN_HOME}/include)
find_library(CREMA_CUDART_STATIC cudart_static HINTS ${cuda_root}/lib64 ${cuda_root}/lib
  ${cuda_root}/targets/x86_64-linux/lib ${cuda_root}/targets/sbsa-linux/lib)
foreach(needed CREMA_CUDA_INCLUDE CREMA_CUDART_STATIC)
  if(NOT ${needed})
    message(FATAL_ERROR "CREMA_CUDA is on, but ${needed} was not found (toolkit at ${cuda_root})")
  endif()
endforeach()
set(cudnn_major 0)
if(CREMA_CUDNN_INCLUDE AND EXISTS ${CREMA_CUDNN_INCLUDE}/cudnn_version.h)
  file(STRINGS ${CREMA_CUDNN_INCLUDE}/cudnn_version.h cudnn_line REGEX "define CUDNN_MAJOR ")
  string(REGEX REPLACE "[^0-9]" "" cudnn_major "${cudnn_line}")
endif()
if(NOT cudnn_major EQUAL 9)
  message(WARNING "the headers of cuDNN 9 were not found (-DCREMA_CUDNN_INCLUDE=FOLDER): "
    "on GPUs, convolutions will be matrix products")
endif()

set(cuda_dir ${PROJECT_SOURCE_DIR}/src/device/cuda)
# launch.cu is compiled for each form of the device functions (src/device/gpu/kernels/hd.h).
set(cuda_only_any)
set(cuda_only_f32 -DCR_ONE_TYPE=CREMA_F32)
set(cuda_only_f16 -DCR_ONE_TYPE=CREMA_F16 -DCR_HALVES_ONLY)
set(cuda_only_bf16 -DCR_ONE_TYPE=CREMA_BF16 -DCR_HALVES_ONLY)
set(cuda_object)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cuda)
foreach(form any f32 f16 bf16)
  set(object ${PROJECT_BINARY_DIR}/cuda/launch_${form}.o)
  list(APPEND cuda_object ${object})
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CREMA_NVCC} -std=c++17 -O3 ${cuda_flags} -DCR_FORM_NAME=${form} ${cuda_only_${form}} -Werror all-warnings
            -Xcompiler -fPIC,-Wall,-Wextra,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics
            -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_SOURCE_DIR}/src
            -MD -MF ${object}.d -c ${cuda_dir}/launch.cu -o ${object}
    DEPENDS ${cuda_dir}/launch.cu
    DEPFILE ${object}.d
    COMMENT "Building CUDA kernels"
    VERBATIM COMMAND_EXPAND_LISTS)
endforeach()

file(GLOB cuda_sources CONFIGURE_DEPENDS ${cuda_dir}/*.c)
list(APPEND cuda_sources ${gpu_sources})
set(cuda_includes ${CREMA_CUDA_INCLUDE})
set(cuda_definitions)
if(cudnn_major EQUAL 9)
  list(APPEND cuda_includes ${CREMA_CUDNN_INCLUDE})
  set(cuda_definitions CREMA_CUDNN)
else()
  list(REMOVE_ITEM cuda_sources ${cuda_dir}/conv_cudnn.c
    ${cuda_dir}/cudnn_graph.c ${cuda_dir}/cudnn_library.c)
endif()
add_library(crema_cuda MODULE ${cuda_sources} ${cuda_object})
set_target_properties(crema_cuda PROPERTIES
  OUTPUT_NAME crema-cuda C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
target_include_directories(crema_cuda PRIVATE ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_SOURCE_DIR}/src)
target_include_directories(crema_cuda SYSTEM PRIVATE ${cuda_includes})
target_compile_definitions(crema_cuda PRIVATE ${cuda_definitions})
target_link_libraries(crema_cuda PRIVATE crema_options ${CREMA_CUDART_STATIC} Threads::Threads rt
  ${CMAKE_DL_LIBS})
target_link_options(crema_cuda PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
install(TARGETS crema_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
