// Turns nodes of a fusion's body into statements, element by element. Family generators
// (codegen/cuda/pointwise.cc, row.cc, ...) decide what is iterated and in which order; the emitter
// knows what a node computes, where an element lies under views, how it is loaded in whole vectors,
// and when a value is rounded.
//
// Code is written in sites. A site is a place where `width` consecutive elements are computed:
// loads of whole vectors come first, then one unrolled loop with the statements, then the stores.
//
//   emitter.BeginSite({.vector = v, .width = 8});
//   std::string y = emitter.Get(relu, at);            // at ends in 8*q + v
//   emitter.Store(0, at, y);
//   code += emitter.EndSite();
//
//   const Vec<half, 8> x0 = Load<half, 8>(in0 + 8 * q);
//   Vec<half, 8> y0;
//   #pragma unroll
//   for (int v = 0; v < 8; ++v) {
//   #line 1 "kernel"
//     const float t0 = Relu(ToFloat(x0[v]));
//     y0[v] = FromFloat<half>(t0);
//   }
//   Store(out0 + 8 * q, y0);
#ifndef DUOTONE_CODEGEN_CUDA_EMITTER_H_
#define DUOTONE_CODEGEN_CUDA_EMITTER_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda/kernel.h"
#include "codegen/index.h"
#include "ir/graph.h"
#include "llvm/ADT/DenseMap.h"

namespace duotone::codegen::cuda {

// "half", "bf16", "float", "double", "long long", "int", "unsigned char", "bool": how elements of a
// dtype are stored (prelude.cuh), and the type in which they are computed: float for 16-bit types.
std::string StorageType(DType dtype);
std::string ComputeType(DType dtype);

class Emitter {
 public:
  // The body has been expanded (codegen/expand.h).
  Emitter(const ir::Graph& body, const CodegenOptions& options);

  struct Site {
    Index vector;  // the variable v; unused where width is 1
    int width = 1;
    std::string guard;       // a condition on the whole site, for loads and stores; "" for none
    std::string lane_guard;  // a condition on one lane (may use v), for observers: see Get
  };
  void BeginSite(Site site);
  // The element of `value` at `at`, as an expression in ComputeType. Emits what it needs into the
  // open site; asked again for the same element, it gives the same name.
  std::string Get(ir::Value value, const Coordinates& at);
  // Writes `expression` (ComputeType of the output's dtype) to output `output` of the body.
  void Store(int output, const Coordinates& at, const std::string& expression);
  // A statement of the generator's own inside the loop over lanes, or before and after it.
  void InLoop(std::string statement);
  void BeforeLoop(std::string statement);
  void AfterLoop(std::string statement);
  std::string EndSite();

  // From now on elements of `value` are what `get` says instead of being computed: sums of rows,
  // values kept in registers. Bindings end with `Unbind`, or with the emitter.
  using Getter = std::function<std::string(const Coordinates& at)>;
  void Bind(ir::Value value, Getter get);
  void Unbind(ir::Value value);
  // Replaces how whole vectors of body input `input` are loaded: from registers or shared memory
  // that hold them in their storage type. Returns "" to load from global memory after all.
  using VectorLoader = std::function<std::string(int input, const Index& position, int width)>;
  void SetVectorLoader(VectorLoader loader) { loader_ = std::move(loader); }

  // The widest of 8, 4, 2, 1 elements in which every input and output that is read at `at`-like
  // coordinates (last axis split into vectors) is a sequence of whole aligned vectors; see
  // pointwise.cc for how candidates are compared.
  int WidestVector(llvm::ArrayRef<ir::Value> values, llvm::ArrayRef<int64_t> shape) const;

  // What a statement computes for the numerics contract: 16-bit values whose dtype is autocast's
  // stay wider inside the kernel, all others are rounded; see docs/numerics.md.
  std::string Rounded(ir::Value value, std::string expression) const;

  // Parameters in the order of Argument: inputs that were read, outputs that were written, then
  // random state, errors and step where used.
  std::string Parameters() const;
  std::vector<Argument> Arguments() const;
  const std::vector<std::string>& labels() const { return labels_; }
  double flops_per_element() const;

 private:
  struct Implementation;
  const ir::Graph& body_;
  const CodegenOptions& options_;
  VectorLoader loader_;
  std::vector<std::string> labels_;
};

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_CODEGEN_CUDA_EMITTER_H_
