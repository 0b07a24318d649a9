# SPDX-License-Identifier: Apache-2.0
# Imported targets from the unpacked PyPI wheel of torch 2.11.0 (Torch's own package stops where no CUDA toolkit is).
#   LibTorch::cpu   libtorch_cpu.so and libc10.so with their headers
#   LibTorch_LIB    folder of the libraries: the worker's run path
#   GLOO_INCLUDE    headers of libgloo-dev, for the one source file that needs ProcessGroupGloo.hpp
# Looks in Torch_ROOT (given by the user), else ${XDG_CACHE_HOME:-~/.cache}/megagraph/libtorch-2.11.0.
if(NOT Torch_ROOT)
    if(DEFINED ENV{Torch_ROOT})
        set(Torch_ROOT $ENV{Torch_ROOT})
    elseif(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
        set(Torch_ROOT $ENV{XDG_CACHE_HOME}/megagraph/libtorch-2.11.0)
    else()
        set(Torch_ROOT $ENV{HOME}/.cache/megagraph/libtorch-2.11.0)
    endif()
endif()
find_path(LibTorch_INCLUDE ATen/core/Tensor.h PATHS ${Torch_ROOT}/torch/include ${Torch_ROOT}/include NO_DEFAULT_PATH)
find_library(LibTorch_CPU torch_cpu PATHS ${Torch_ROOT}/torch/lib ${Torch_ROOT}/lib NO_DEFAULT_PATH)
find_library(LibTorch_C10 c10 PATHS ${Torch_ROOT}/torch/lib ${Torch_ROOT}/lib NO_DEFAULT_PATH)
find_path(GLOO_INCLUDE gloo/context.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorchWheel
    REQUIRED_VARS LibTorch_INCLUDE LibTorch_CPU LibTorch_C10 GLOO_INCLUDE
    REASON_FAILURE_MESSAGE "run packaging/setup.sh, or set Torch_ROOT to an unpacked LibTorch 2.11.0")
if(LibTorchWheel_FOUND AND NOT TARGET LibTorch::cpu)
    get_filename_component(LibTorch_LIB ${LibTorch_CPU} DIRECTORY)
    # the wheel carries headers of another fmt than the system's library: ours must be found first
    find_path(LibTorch_FMT fmt/format.h REQUIRED)
    set(LibTorch_FMT_FIRST ${CMAKE_BINARY_DIR}/system-fmt)
    file(MAKE_DIRECTORY ${LibTorch_FMT_FIRST})
    file(CREATE_LINK ${LibTorch_FMT}/fmt ${LibTorch_FMT_FIRST}/fmt SYMBOLIC)
    add_library(LibTorch::cpu INTERFACE IMPORTED)
    set_target_properties(LibTorch::cpu PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_FMT_FIRST};${LibTorch_INCLUDE};${LibTorch_INCLUDE}/torch/csrc/api/include"
        INTERFACE_LINK_LIBRARIES "${LibTorch_CPU};${LibTorch_C10}"
        INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO")
endif()
