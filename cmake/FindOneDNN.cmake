# Finds oneDNN's library and headers: OneDNN::dnnl. (The package's own config file also demands OpenCL's headers, which the
# CPU engine does not need.)
find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(ONEDNN_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS ONEDNN_LIBRARY ONEDNN_INCLUDE_DIR)
if(OneDNN_FOUND AND NOT TARGET OneDNN::dnnl)
  add_library(OneDNN::dnnl UNKNOWN IMPORTED)
  set_target_properties(OneDNN::dnnl PROPERTIES
    IMPORTED_LOCATION ${ONEDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE_DIR})
endif()
