// Turns nodes of a fusion's body into statements, element by element. Family generators
// (codegen/cuda/pointwise.cc, row.cc, ...) decide what is iterated and in which order; the emitter
// knows what a node computes, where an element lies under views, how it is loaded in whole vectors,
// and when a value is rounded.
//
// Code is written in sites. A site is a place where `width` consecutive elements are computed:
// loads of whole vectors come first, then what is the same for all of them, then one unrolled loop
// with the statements, then the stores.
//
//   emitter.BeginSite({.vector = v, .width = 8});
//   std::string y = emitter.Get(relu, at);            // at ends in 8*q + v
//   emitter.Store(0, at, y);
//   code += emitter.EndSite();
//
//   const Vec<half, 8> x0 = Load<8>(in0 + 8 * q);
//   Vec<half, 8> y0;
//   #pragma unroll
//   for (int v = 0; v < 8; ++v) {
//   #line 1 "kernel"
//     const float t0 = Relu(ToFloat(x0[v]));
//     y0[v] = FromFloat<half>(t0);
//   }
//   Store(out0 + 8 * q, y0);
//
// Names: in0, out0 are the parameters for operand 0 and result 0; x, y, t, r, g with a number are
// the emitter's own; a generator uses others.
#ifndef DUOTONE_CODEGEN_CUDA_EMITTER_H_
#define DUOTONE_CODEGEN_CUDA_EMITTER_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/op_expressions.h"
#include "codegen/index.h"
#include "ir/graph.h"

namespace duotone::codegen::cuda {

class Emitter {
 public:
  // The body has been expanded (codegen/expand.h) and outlives the emitter, like `options`.
  Emitter(const ir::Graph& body, const CodegenOptions& options);

  // The kernel has a guard: a parameter `guard`, tested in the prologue, passed as the operand
  // after the last.
  void UseGuard();
  // Operands whose buffer the kernel also writes: neither they nor any result are __restrict__.
  // The generator reads an element of them before it writes that element, and reads no other.
  void SetInPlace(llvm::ArrayRef<int> operands);

  struct Site {
    Index vector = 0;  // the variable v; unused where width is 1
    int width = 1;
    std::string guard;  // a condition on the whole site, for loads, stores and reports; "" for none
    std::string lane_guard;  // a condition on one lane (may use v), for reports
    // For several copies of a site in an unrolled loop over `copy`, whose loads are to be issued
    // together: see Parts.
    std::string copy;  // "u"
    int copies = 1;
  };
  void BeginSite(Site site);
  // The element of `value` at `at`, as an expression in ComputeType. Emits what it needs into the
  // open site; asked again for the same element, it gives the same name. "0" after an error.
  std::string Get(ir::Value value, const Coordinates& at);
  // The same, as it would be read back after a store: rounded to the value's dtype whatever its
  // origin. For observers: tests for finiteness, comparisons.
  std::string GetStored(ir::Value value, const Coordinates& at);
  // Writes `expression` (ComputeType of the output's dtype) to output `output` of the body.
  void Store(int output, const Coordinates& at, const std::string& expression);
  // A statement of the generator's own inside the loop over lanes, or before and after it.
  void InLoop(std::string statement);
  void BeforeLoop(std::string statement);
  void AfterLoop(std::string statement);
  // The code of the site, each line indented by so many spaces.
  std::string EndSite(int indent = 2);
  // The same in two parts for a site with several copies. The loads go to arrays:
  //
  //   <declarations>                             Vec<half, 8> x0[2];
  //   for (int u = 0; u < 2; ++u) { <loads> }    x0[u] = Load<8>(in0 + 8 * (q + 128 * u));
  //   for (int u = 0; u < 2; ++u) { <body> }
  struct Parts {
    std::string declarations;
    std::string loads;
    std::string body;
  };
  Parts EndSiteParts(int indent = 4, int declaration_indent = 2);

  // From now on elements of `value` are what `get` says instead of being computed: sums of rows,
  // values kept in registers, accumulators. The expression is in ComputeType; where the dtype of
  // the value is the user's and 16 bits wide, the generator has rounded it (see Rounded). It
  // belongs to one lane if it names the site's variable or its coordinates do. Bindings end with
  // `Unbind`, or with the emitter.
  using Getter = std::function<std::string(const Coordinates& at)>;
  void Bind(ir::Value value, Getter get);
  void Unbind(ir::Value value);
  // Replaces how body inputs are loaded: from registers or shared memory that hold them in their
  // storage type. Called with the row-major position of the first of `width` consecutive elements
  // (width 1: of one element); returns an expression of type Vec<T, width> (width 1: T), or "" to
  // load from global memory after all.
  using VectorLoader = std::function<std::string(int input, const Index& position, int width)>;
  void SetVectorLoader(VectorLoader loader) { loader_ = std::move(loader); }

  // What a site would read of the body's inputs to compute `values` at `at`.
  struct Read {
    int input = 0;
    Index position = 0;
    bool conditional = false;  // under the bounds of a pad or concat, or behind a gather
    bool whole = false;        // one aligned access of up to 16 bytes, or several; or one element
                               // for all lanes
  };
  std::vector<Read> ReadsOf(llvm::ArrayRef<ir::Value> values, const Coordinates& at,
                            const Index& vector, int width) const;
  // The widest of 8, 4, 2, 1 elements, at most `limit`, that divides the last axis and in which
  // everything that is read to compute `values`, at coordinates of `shape` whose last axis is split
  // into vectors, is whole.
  int WidestVector(llvm::ArrayRef<ir::Value> values, llvm::ArrayRef<int64_t> shape,
                   int limit = 8) const;
  // The body inputs that `values` read, in order.
  std::vector<int> InputsBehind(llvm::ArrayRef<ir::Value> values) const;

  // What a statement computes for the numerics contract: 16-bit values whose dtype is autocast's
  // stay wider inside the kernel, all others are rounded; see docs/numerics.md.
  std::string Rounded(ir::Value value, std::string expression) const;
  // True if approximate functions may compute the value: it is rounded to 16 bits by autocast.
  bool IsFast(ir::Value value) const;

  // "int", or "long long" where a tensor of the body has 2^31 elements or more: the type of every
  // variable that takes part in indices.
  std::string IndexType() const { return index_type_; }
  // A parameter of the generator's own: AddParameter("float* __restrict__ partial0", {...}).
  void AddParameter(std::string declaration, Argument argument);
  // The parameter of a body input that the generator reads itself: "in0".
  std::string InputParameter(int input);
  // The parameter of a result that is a word of flags: "flag1", an int*.
  std::string FlagParameter(int output);
  // The number of a label of its own for `text`, and a report of an index out of range with it:
  // a bool expression that is true where `index` lies in [0, limit).
  int AddLabel(std::string text);
  std::string IndexCheckExpression(const std::string& index, int64_t limit,
                                   const std::string& wanted, int label);

  // What the generator puts together when all sites are written. The prologue tests the guard and
  // sets up random numbers; the declarations stand before the kernel.
  std::string Declarations() const;
  std::string Prologue(int indent = 2) const;
  // Parameters in the order of Arguments: inputs that were read, outputs that were written, the
  // generator's own, then guard, random state, node ids, errors and step where used.
  std::string Parameters() const;
  std::vector<Argument> Arguments() const;
  // extern "C" __global__ void __launch_bounds__(threads) kernel(...) { <prologue> <code> }, with
  // the include of the prelude and of `headers` ("duotone/reduce.cuh") and the declarations.
  std::string KernelText(const std::string& code, int threads,
                         llvm::ArrayRef<std::string> headers = {}) const;

  const std::vector<std::string>& labels() const { return labels_; }
  // Work of the statements so far, per lane of each site.
  double flops_per_element() const { return flops_; }
  double mufu_per_element() const { return mufu_; }
  // The first error: an op that no family computes element by element.
  const absl::Status& status() const { return status_; }

 private:
  // An expression that needs no parentheses, and whether it differs from lane to lane.
  struct Element {
    std::string text;
    bool lane = false;
  };
  struct Condition {
    std::string text;
    bool lane = false;
  };
  struct Line {
    std::string text;
    std::string label;  // "" for none
  };
  using Key = std::tuple<const ir::Node*, int, Coordinates, std::string>;

  Element Resolve(ir::Value value, const Coordinates& at);
  Element Compute(ir::Value value, const Coordinates& at);
  Element ComputeExpression(ir::Value value, const Coordinates& at);
  Element ComputeView(ir::Value value, const Coordinates& at);
  Element ComputePad(ir::Value value, const Coordinates& at);
  Element ComputeConcat(ir::Value value, const Coordinates& at);
  Element ComputeGather(ir::Value value, const Coordinates& at);
  Element ComputeRandom(ir::Value value, const Coordinates& at);
  Element ComputeScalar(ir::Value value);
  Element ComputeReductionOfOne(ir::Value value, const Coordinates& at);
  Element ComputeTestOfOne(ir::Value value);
  Element ComputeConstant(ir::Value value, const Coordinates& at);
  Element LoadInput(int input, const Coordinates& at);
  Element LoadVector(int input, const Index& base, int width);
  Element LoadScalar(int input, const Index& position, bool lane);
  Element Stored(ir::Value value, const Coordinates& at);
  // The random word of the node's element.
  Element RandomWordAt(const ir::Node& node, const Coordinates& at);
  // A new statement `const type t5 = expression;` for the node, in the loop if it differs by lane.
  Element Statement(const ir::Node& node, const std::string& type, const std::string& expression,
                    bool lane);
  Element Widened(const std::string& stored, DType dtype, bool lane) const;
  Condition MakeCondition(const Bounds& bounds) const;
  bool DependsOnLane(const Index& index) const;
  bool UsesRuntimeIndex(const Index& index) const;
  // The conjunction of the site's guard and the open conditions; "" if there is none.
  std::string ConditionText() const;
  bool ConditionsDependOnLane() const;
  bool ConditionsAreKnownEarly() const;
  bool IsRounded(ir::Value value) const;
  std::string NewName(char prefix);
  int StreamOf(const ir::Node& node);
  std::vector<std::pair<std::string, Argument>> AllParameters() const;
  Element Fail(const ir::Node& node);
  void AddLine(std::vector<Line>& list, std::string text, const ir::Node* node = nullptr);
  std::string Format(const std::vector<Line>& lines, int indent);

  const ir::Graph& body_;
  const CodegenOptions& options_;
  std::string index_type_ = "int";
  VectorLoader loader_;
  std::map<std::pair<const ir::Node*, int>, Getter> bound_;
  std::map<const ir::Node*, int> input_index_;

  // The open site.
  Site site_;
  std::map<Key, Element> memo_;
  std::vector<Condition> conditions_;
  std::set<std::string> runtime_;       // names of index variables that are read from memory
  std::set<std::string> lane_runtime_;  // those that differ by lane
  std::vector<Line> declarations_;
  std::vector<Line> loads_;
  std::vector<Line> before_;
  std::vector<Line> loop_;
  std::vector<Line> after_;

  std::vector<Read>* reads_ = nullptr;  // ReadsOf: where reads are noted

  // The kernel so far.
  std::set<int> read_;
  std::set<int> written_;
  std::map<int, std::string> flags_;
  std::set<int> in_place_;
  bool guard_ = false;
  bool errors_ = false;
  std::vector<const ir::Node*> streams_;
  std::vector<std::string> tables_;  // declarations of constants
  std::map<const ir::Node*, std::string> table_names_;
  std::vector<std::pair<std::string, Argument>> parameters_;
  std::map<char, int> names_;
  std::vector<std::string> labels_;
  double flops_ = 0;
  double mufu_ = 0;
  absl::Status status_;
};

// `text` with every line indented by so many spaces more, but for lines of the preprocessor.
std::string Indent(const std::string& text, int spaces);
// True if `text` contains `name` as a whole word.
bool Mentions(const std::string& text, const std::string& name);
// "gelu (gpt.cc:40, node %gelu.1)".
std::string LabelOf(const ir::Node& node);
// The directive in front of a statement that has a label, and the one behind it: what follows has
// none.
std::string LineOfLabel(int label);
std::string LineOfNoLabel();
// The sizes of a static shape.
llvm::SmallVector<int64_t, 6> SizesOf(const ir::Type& type);

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_CODEGEN_CUDA_EMITTER_H_
