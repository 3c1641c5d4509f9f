// What a compiler says about a kernel, put beside the text it speaks of and the nodes it came from.
//
//   kernel.cu(3): error: identifier "x" is undefined
//        2 |   const float a = in0[i];
//   >    3 |   out0[i] = a + x;
//        4 | }
#ifndef DUOTONE_RUNTIME_CUDA_COMPILE_ERROR_H_
#define DUOTONE_RUNTIME_CUDA_COMPILE_ERROR_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/kernel.h"

namespace duotone::runtime {

// The file name under which a compiler gets a kernel's source: messages read "kernel.cu(12): ...".
inline constexpr const char* kKernelFile = "kernel.cu";

// `source` with its `#line` directives empty, so that messages count the lines of the text.
std::string WithoutLineDirectives(std::string_view source);

// The label that `#line N "kernel"` directives give to a line of the text, both counted from 1; 0
// for none.
int LabelOfLine(std::string_view source, int line);

// A place that a message names: "kernel.cu(12): error: ...".
struct SourcePlace {
  std::string file;
  int line = 0;
  std::string message;
};
std::vector<SourcePlace> PlacesIn(std::string_view log);

// The first few errors of `log`, each with the lines around it; empty or beginning with a newline.
std::string Excerpts(std::string_view log, std::string_view source,
                     std::span<const SourceHeader> headers);

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_COMPILE_ERROR_H_
