// Optimizer kernels: every update of one optimizer in one launch. A block belongs to one tensor and
// finds it, by its own number, in a table in the text; addresses come from a table in memory.
// Tensors whose code is the same but for addresses and sizes form a class, so that the text grows
// by three numbers per tensor:
//
//   static __device__ const int kFirstBlock[4] = {0, 49, 50, 82};
//   static __device__ const int kVectors[3] = {50176, 64, 32768};
//   static __device__ const unsigned char kClass[3] = {0, 0, 0};
//
//   DUOTONE_DEVICE void Update0(void* const* row, const AdamScalars<float>& scalars, int q) {
//     const float* const in0 = static_cast<const float*>(row[0]);
//     ...
//     AdamUpdate(scalars, gradient, weight, m, v);
//     ...
//   }
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/integer.h"
#include "base/status.h"
#include "codegen/cuda/emitter.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/schedule.h"
#include "codegen/expand.h"
#include "codegen/storage.h"
#include "llvm/ADT/DenseMap.h"

namespace duotone::codegen::cuda {
namespace {

// ---- How each kind of update is written (kernels/optimizer.cuh).

struct UpdateCode {
  std::string scalars;       // "AdamScalars<float>"
  std::string shared;        // "adam_float": the variable in shared memory
  std::string make_scalars;  // "MakeAdamScalars<float>(true, 0.9, ..., "
  std::string call;          // "AdamUpdate(scalars, "
  int lr = 0;                // operands
  int step = -1;             // none
  int first_moment = 3;
  std::vector<std::string> moments;
};

// Of an update alone, per element: a rough count.
constexpr double kUpdateFlops = 12;

// The shortest text that reads back as the same double.
std::string Number(double value) {
  std::string text;
  for (int digits = 15; digits <= 17; ++digits) {
    text = absl::StrFormat("%.*g", digits, value);
    if (std::strtod(text.c_str(), nullptr) == value) break;
  }
  return text;
}

UpdateCode AdamCode(const ir::Node& update, std::string_view type, bool decoupled) {
  const auto& adam = update.attrs_as<ir::AdamAttrs>();
  return {.scalars = absl::StrFormat("AdamScalars<%s>", type),
          .shared = absl::StrFormat("adam_%s", type),
          .make_scalars = absl::StrFormat(
              "MakeAdamScalars<%s>(%s, %s, %s, %s, %s, ", type, decoupled ? "true" : "false",
              Number(adam.beta1), Number(adam.beta2), Number(adam.eps), Number(adam.weight_decay)),
          .call = "AdamUpdate(scalars, ",
          .lr = 5,
          .step = 4,
          .first_moment = 2,
          .moments = {"first_moment", "second_moment"}};
}

std::optional<UpdateCode> CodeOf(const ir::Node& update) {
  const std::string type = ComputeType(update.type(0).dtype);
  if (update.op() == ir::Op::kAdamUpdate) return AdamCode(update, type, false);
  if (update.op() == ir::Op::kAdamWUpdate) return AdamCode(update, type, true);
  if (update.op() != ir::Op::kSgdUpdate) return std::nullopt;
  const auto& sgd = update.attrs_as<ir::SgdAttrs>();
  UpdateCode code{.scalars = absl::StrFormat("SgdScalars<%s>", type),
                  .shared = absl::StrFormat("sgd_%s", type),
                  .make_scalars = absl::StrFormat("MakeSgdScalars<%s>(%s, %s, ", type,
                                                  Number(sgd.weight_decay), Number(sgd.momentum)),
                  .call = "SgdUpdate(scalars, ",
                  .lr = 2};
  if (update.operand_count() == 4) {
    code.call = absl::StrFormat("SgdMomentumUpdate(scalars, %s, ", sgd.nesterov ? "true" : "false");
    code.moments = {"velocity"};
  }
  return code;
}
// ---- One update with all that is computed beside it, as a graph of its own.

// Tensors without views are treated as flat arrays of this size, whatever their own: so that the
// text does not depend on it. Positions in them fit an int.
constexpr int64_t kFlatElements = int64_t{1} << 30;

struct Piece {
  std::unique_ptr<ir::Graph> body;
  ir::Node* update = nullptr;  // in `body`
  std::vector<int> inputs;     // of the body: operands of the fusion
  std::vector<int> outputs;    // of the body: results of the fusion
  int64_t elements = 0;
  bool flat = false;
  int vector = 1;  // elements that a thread updates at a time
};

// The updates that `value` depends on.
void CollectUpdates(ir::Value value, std::set<const ir::Node*>& seen,
                    std::vector<const ir::Node*>& updates) {
  if (!seen.insert(value.node).second) return;
  if (CodeOf(*value.node)) updates.push_back(value.node);
  for (ir::Value operand : value.node->operands()) CollectUpdates(operand, seen, updates);
}

class PieceBuilder {
 public:
  PieceBuilder(const ir::Graph& body, const ir::Node& update) : source_(body), update_(update) {
    for (size_t i = 0; i < body.inputs().size(); ++i) input_index_[body.inputs()[i]] = i;
    piece_.body = std::make_unique<ir::Graph>(nullptr, "body");
    piece_.elements = update.type(0).elements();
  }

  absl::StatusOr<Piece> Build(const std::vector<int>& outputs) {
    std::set<const ir::Node*> used;
    for (int output : outputs) Collect(source_.outputs()[output].value.node, used);
    // A number cannot be told from the rate and the scale by its shape.
    piece_.flat = update_.type(0).rank() > 0 && piece_.elements <= kFlatElements &&
                  std::all_of(used.begin(), used.end(),
                              [&](const ir::Node* node) { return CanBeFlat(*node); });
    for (ir::Value operand : update_.operands()) DUOTONE_RETURN_IF_ERROR(Clone(operand).status());
    for (int output : outputs) {
      DUOTONE_ASSIGN_OR_RETURN(const ir::Value value, Clone(source_.outputs()[output].value));
      piece_.body->outputs().push_back({absl::StrCat("out", piece_.outputs.size()), value});
      piece_.outputs.push_back(output);
    }
    piece_.update = clones_[&update_];
    return std::move(piece_);
  }

 private:
  static void Collect(const ir::Node* node, std::set<const ir::Node*>& used) {
    if (!used.insert(node).second) return;
    for (ir::Value operand : node->operands()) Collect(operand.node, used);
  }

  // Numbers beside the tensors, and elements that are computed each from those at its place.
  bool CanBeFlat(const ir::Node& node) const {
    if (std::all_of(node.types().begin(), node.types().end(),
                    [](const ir::Type& type) { return type.rank() == 0; })) {
      return std::all_of(node.operands().begin(), node.operands().end(),
                         [](ir::Value operand) { return operand.type().rank() == 0; });
    }
    for (const ir::Type& type : node.types()) {
      if (type.shape != update_.type(0).shape) return false;
    }
    if (node.op() == ir::Op::kBroadcast) return node.operand(0).type().rank() == 0;
    if (node.op() == ir::Op::kConstant) {
      return node.attrs_as<ir::ConstantAttrs>().value.is_splat();
    }
    if (IsConstant(node)) return false;  // iota depends on the place
    return node.op() == ir::Op::kInput || node.def().lower == ir::Lower::kElementwise ||
           CodeOf(node).has_value();
  }

  void Flatten(ir::Shape& shape) const {
    if (piece_.flat && shape == update_.type(0).shape) shape = {ir::Dim(kFlatElements)};
  }

  absl::StatusOr<ir::Value> Clone(ir::Value value) {
    const auto known = clones_.find(value.node);
    if (known != clones_.end()) return known->second->result(value.index);
    if (value.node->op() == ir::Op::kInput) {
      ir::Type type = value.type();
      Flatten(type.shape);
      DUOTONE_ASSIGN_OR_RETURN(
          const ir::Value input,
          piece_.body->AddInput(absl::StrCat("operand", piece_.inputs.size()), type));
      piece_.inputs.push_back(input_index_[value.node]);
      clones_[value.node] = input.node;
      return input;
    }
    ir::Graph::Spec spec{.op = value.node->op(),
                         .attrs = value.node->attrs(),
                         .info = value.node->info(),
                         .id = value.node->id()};
    for (int i = 0; i < value.node->result_count(); ++i) {
      spec.names.push_back(value.node->name(i));
    }
    for (ir::Value operand : value.node->operands()) {
      DUOTONE_ASSIGN_OR_RETURN(const ir::Value clone, Clone(operand));
      spec.operands.push_back(clone);
    }
    if (auto* constant = std::get_if<ir::ConstantAttrs>(&spec.attrs)) {
      Flatten(constant->result.type.shape);
    } else if (auto* broadcast = std::get_if<ir::BroadcastAttrs>(&spec.attrs)) {
      Flatten(broadcast->result.shape);
    }
    DUOTONE_ASSIGN_OR_RETURN(ir::Node* const clone, piece_.body->Add(std::move(spec)));
    clones_[value.node] = clone;
    return clone->result(value.index);
  }

  const ir::Graph& source_;
  const ir::Node& update_;
  llvm::DenseMap<const ir::Node*, int> input_index_;
  llvm::DenseMap<const ir::Node*, ir::Node*> clones_;
  Piece piece_;
};

// One piece per update, in the order of the results.
absl::StatusOr<std::vector<Piece>> SplitIntoPieces(const ir::Graph& body) {
  std::vector<std::pair<const ir::Node*, std::vector<int>>> groups;
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    std::set<const ir::Node*> seen;
    std::vector<const ir::Node*> updates;
    CollectUpdates(body.outputs()[i].value, seen, updates);
    if (updates.size() != 1) {
      return InvalidArgument("result %d of an optimizer fusion depends on %d updates, not on one",
                             i, updates.size());
    }
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& g) { return g.first == updates[0]; });
    if (group == groups.end()) group = groups.insert(groups.end(), {updates[0], {}});
    group->second.push_back(static_cast<int>(i));
  }
  std::vector<Piece> pieces;
  for (const auto& [update, outputs] : groups) {
    PieceBuilder builder(body, *update);
    DUOTONE_ASSIGN_OR_RETURN(Piece piece, builder.Build(outputs));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// ---- The text of a class.

struct ClassCode {
  std::string scalars;  // the type
  std::string shared;   // the variable that holds them
  // Statements that return the scalars, and the update of the elements of vector q.
  std::string make, update;
  std::string index_type;  // of q
  std::vector<std::string> labels;
  double flops = 0;  // per element
  int row = 0;       // addresses

  bool SameText(const ClassCode& other) const {
    return make == other.make && update == other.update;
  }
};

bool Mentions(std::string_view text, const std::string& name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (end == text.size() || std::isdigit(static_cast<unsigned char>(text[end])) == 0) return true;
  }
  return false;
}

// `text` behind the addresses that it uses:
//   const float* const in0 = static_cast<const float*>(row[0]);
// Results may be the operands in place: nothing here promises that they are apart.
std::string WithPointers(const Piece& piece, const std::string& text) {
  std::string pointers;
  int at = 0;
  const auto add = [&](std::string_view prefix, size_t i, const ir::Type& type,
                       std::string_view constant) {
    const std::string name = absl::StrFormat("%s%d", prefix, i);
    const std::string pointee = absl::StrFormat("%s%s", constant, StorageType(type.dtype));
    if (Mentions(text, name)) {
      absl::StrAppendFormat(&pointers, "  %s* const %s = static_cast<%s*>(row[%d]);\n", pointee,
                            name, pointee, at);
    }
    ++at;
  };
  for (size_t i = 0; i < piece.inputs.size(); ++i) {
    add("in", i, piece.body->inputs()[i]->type(), "const ");
  }
  for (size_t i = 0; i < piece.outputs.size(); ++i) {
    add("out", i, piece.body->outputs()[i].value.type(), "");
  }
  return pointers + text;
}

// The statements that make the scalars of an update.
std::string MakeText(const Piece& piece, const UpdateCode& code, Emitter& emitter) {
  emitter.BeginSite({});
  std::string step;
  if (code.step >= 0) {
    step = absl::StrCat(emitter.Get(piece.update->operand(code.step), {}), ", ");
  }
  const std::string lr = emitter.Get(piece.update->operand(code.lr), {});
  emitter.AfterLoop(absl::StrCat("return ", code.make_scalars, step, lr, ");"));
  return WithPointers(piece, emitter.EndSite());
}

// Where the elements of vector q are in a tensor of this type; all of the piece have as many.
Coordinates VectorAt(const Piece& piece, const ir::Type& type) {
  const int64_t elements = piece.flat ? kFlatElements : piece.elements;
  const int64_t vectors = std::max<int64_t>(1, CeilDiv(elements, piece.vector));
  Index position = Index::Variable("q", vectors) * piece.vector;
  if (piece.vector > 1) position = position + Index::Variable("v", piece.vector);
  return Delinearise(position, SizesOf(type));
}

std::string UpdateText(const Piece& piece, const UpdateCode& code, Emitter& emitter) {
  ir::Node& update = *piece.update;
  const Coordinates at = VectorAt(piece, update.type(0));
  const std::string type = ComputeType(update.type(0).dtype);
  emitter.BeginSite({.vector = piece.vector > 1 ? Index::Variable("v", piece.vector) : Index(0),
                     .width = piece.vector});
  const std::string gradient = emitter.Get(update.operand(1), at);
  emitter.InLoop(absl::StrFormat("const %s gradient = %s;", type, gradient));
  // Variables with the old values, which the update replaces.
  std::vector<std::string> names = {"weight"};
  names.insert(names.end(), code.moments.begin(), code.moments.end());
  for (size_t i = 0; i < names.size(); ++i) {
    const int operand = i == 0 ? 0 : code.first_moment + static_cast<int>(i) - 1;
    const std::string old = emitter.Get(update.operand(operand), at);
    emitter.InLoop(absl::StrFormat("%s %s = %s;", type, names[i], old));
  }
  emitter.InLoop(absl::StrFormat("%sgradient, %s);", code.call, absl::StrJoin(names, ", ")));
  for (size_t i = 0; i < names.size(); ++i) {
    emitter.Bind(update.result(static_cast<int>(i)),
                 [name = names[i]](const Coordinates&) { return name; });
  }
  for (size_t i = 0; i < piece.outputs.size(); ++i) {
    const ir::Value value = piece.body->outputs()[i].value;
    const Coordinates stored_at = VectorAt(piece, value.type());
    emitter.Store(static_cast<int>(i), stored_at, emitter.Get(value, stored_at));
  }
  return WithPointers(piece, emitter.EndSite());
}

absl::StatusOr<ClassCode> GenerateClass(const Piece& piece, const CodegenOptions& options) {
  const UpdateCode code = *CodeOf(*piece.update);
  Emitter emitter(*piece.body, options);
  ClassCode made{.scalars = code.scalars,
                 .shared = code.shared,
                 .row = static_cast<int>(piece.inputs.size() + piece.outputs.size())};
  made.make = MakeText(piece, code, emitter);
  made.update = UpdateText(piece, code, emitter);
  made.index_type = emitter.IndexType();
  made.labels = emitter.labels();
  made.flops = emitter.flops_per_element() + kUpdateFlops;
  DUOTONE_RETURN_IF_ERROR(emitter.status());
  for (const Argument& argument : emitter.Arguments()) {
    if (argument.kind == Argument::Kind::kOperand || argument.kind == Argument::Kind::kResult) {
      continue;
    }
    return Unimplemented("%s: its operands draw random numbers or look up rows in its kernel %s",
                         piece.update->def().name, piece.update->Place());
  }
  if (!emitter.Declarations().empty()) {
    return Unimplemented("%s: its operands have a constant of different elements %s",
                         piece.update->def().name, piece.update->Place());
  }
  return made;
}

// `#line` counts from 1 in each class; in the kernel, labels of all classes follow one another.
std::string ShiftLabels(std::string_view text, size_t by) {
  constexpr std::string_view kLine = "#line ";
  std::string shifted;
  while (true) {
    const size_t line = text.find(kLine);
    if (line == std::string_view::npos) break;
    const size_t number = line + kLine.size();
    const size_t end = text.find(' ', number);
    absl::StrAppendFormat(&shifted, "%s%d", text.substr(0, number),
                          std::stoul(std::string(text.substr(number, end - number))) + by);
    text.remove_prefix(end);
  }
  return shifted.append(text);
}

// ---- The whole kernel.

class OptimizerKernel {
 public:
  OptimizerKernel(const ir::Node& fusion, GuardOption guard, const CodegenOptions& options)
      : fusion_(fusion), guard_(guard), options_(options) {}

  absl::StatusOr<GeneratedKernel> Generate();
  GeneratedKernel Nothing() const;

 private:
  absl::StatusOr<std::vector<Prediction>> RankSchedules() const;
  absl::Status AddClasses();
  std::string Source() const;
  int64_t Vectors(const Piece& piece) const { return CeilDiv(piece.elements, piece.vector); }
  int64_t VectorsPerBlock() const { return int64_t{schedule_.threads} * schedule_.unroll; }
  int64_t Blocks(const Piece& piece) const { return CeilDiv(Vectors(piece), VectorsPerBlock()); }
  std::vector<Argument> Row(const Piece& piece) const;

  const ir::Node& fusion_;
  const GuardOption guard_;
  const CodegenOptions& options_;
  std::vector<Piece> pieces_;
  std::vector<ClassCode> classes_;
  std::vector<size_t> class_of_;  // per piece
  Schedule schedule_;
  int row_ = 0;  // addresses per tensor
};

// Adam's scalars are computed anew in each block: some 200 instructions of one warp, in f64, which
// runs at half the rate of f32 on devices for computing (sm_80, sm_90, sm_100) and at a 64th on
// others.
double ScalarsWork(const GpuTarget& target) {
  return 200.0 * 32 * (target.compute % 10 == 0 && target.compute != 120 ? 4 : 64);
}

absl::StatusOr<std::vector<Prediction>> OptimizerKernel::RankSchedules() const {
  double read = 0, written = 0, elements = 0;
  bool has_low = false;
  for (const Piece& piece : pieces_) {
    for (const ir::Node* input : piece.body->inputs()) {
      if (input->type().rank() == 0) continue;
      read += static_cast<double>(piece.elements * ByteSize(input->type().dtype));
      has_low |= IsLow(input->type().dtype);
    }
    for (int output : piece.outputs) {
      written += static_cast<double>(fusion_.type(output).bytes());
      has_low |= IsLow(fusion_.type(output).dtype);
    }
    elements += static_cast<double>(piece.elements);
  }
  const double flops = 20 * elements;
  std::vector<Prediction> candidates;
  // Eight elements are 16 bytes of a gradient or a copy in 16 bits, and two accesses of 16 bytes to
  // everything else, which is better off with four where there is nothing in 16 bits.
  for (int vector : {8, 4}) {
    if (vector == 8 && !has_low) continue;
    for (int threads : {256, 128, 512, 64}) {
      for (int unroll : {4, 2, 1}) {
        const double per_block = static_cast<double>(vector * threads * unroll);
        int64_t blocks = 0;
        for (const Piece& piece : pieces_) {
          blocks += static_cast<int64_t>(static_cast<double>(piece.elements) / per_block) + 1;
        }
        candidates.push_back(Predict(*options_.target,
                                     {.vector = vector, .unroll = unroll, .threads = threads},
                                     {.bytes_read = read,
                                      .bytes_written = written,
                                      .flops = flops,
                                      .instructions = 3 * flops + ScalarsWork(*options_.target) *
                                                                      static_cast<double>(blocks),
                                      .mufu = 3 * elements,
                                      .blocks = blocks,
                                      .registers = vector == 8 ? 72 : 48,
                                      .bytes_in_flight_per_thread = 14.0 * vector}));
      }
    }
  }
  return Rank(*options_.target, std::move(candidates), options_.schedules, fusion_.name());
}

absl::Status OptimizerKernel::AddClasses() {
  for (Piece& piece : pieces_) {
    piece.vector = schedule_.vector;
    if (!piece.flat) {
      Emitter probe(*piece.body, options_);
      piece.vector = probe.WidestVector(piece.update->operands().take_front(2),
                                        SizesOf(piece.update->type(0)), schedule_.vector);
    }
    DUOTONE_ASSIGN_OR_RETURN(ClassCode code, GenerateClass(piece, options_));
    row_ = std::max(row_, code.row);
    const auto same = std::find_if(classes_.begin(), classes_.end(),
                                   [&](const ClassCode& known) { return known.SameText(code); });
    class_of_.push_back(static_cast<size_t>(same - classes_.begin()));
    if (same == classes_.end()) classes_.push_back(std::move(code));
  }
  if (classes_.size() > 256) {
    return Unimplemented("an optimizer with %d kinds of updates; one kernel has up to 256 %s",
                         classes_.size(), fusion_.Place());
  }
  return absl::OkStatus();
}

std::string Table(std::string_view type, std::string_view name,
                  const std::vector<int64_t>& values) {
  std::string text =
      absl::StrFormat("static __device__ const %s %s[%d] = {", type, name, values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",",
                    i % 16 == 0 && values.size() > 16 ? "\n    "
                    : i == 0                          ? ""
                                                      : " ",
                    values[i]);
  }
  return absl::StrCat(text, "};\n");
}

std::string OptimizerKernel::Source() const {
  std::vector<int64_t> first_block = {0}, vectors, classes;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    first_block.push_back(first_block.back() + Blocks(pieces_[i]));
    vectors.push_back(Vectors(pieces_[i]));
    classes.push_back(static_cast<int64_t>(class_of_[i]));
  }
  const std::string count =
      *std::max_element(vectors.begin(), vectors.end()) < (int64_t{1} << 31) ? "int" : "long long";
  std::string text = absl::StrCat(
      "#include \"duotone/optimizer.cuh\"\n\n// By tensor: its first block, how many vectors it "
      "has, the function that updates it.\n",
      Table("int", "kFirstBlock", first_block), Table(count, "kVectors", vectors),
      Table("unsigned char", "kClass", classes), "\n");

  size_t labels = 0;
  std::set<std::string> scalars;
  std::string make_cases, update_cases;
  for (size_t c = 0; c < classes_.size(); ++c) {
    const ClassCode& code = classes_[c];
    absl::StrAppendFormat(&text, "DUOTONE_DEVICE %s Scalars%d(void* const* row) {\n%s}\n\n",
                          code.scalars, c, ShiftLabels(code.make, labels));
    absl::StrAppendFormat(
        &text, "DUOTONE_DEVICE void Update%d(void* const* row, const %s& scalars, %s q) {\n%s}\n\n",
        c, code.scalars, code.index_type, ShiftLabels(code.update, labels));
    labels += code.labels.size();
    scalars.insert(absl::StrFormat("  DUOTONE_SHARED(%s, %s, 1);\n", code.scalars, code.shared));
    absl::StrAppendFormat(&make_cases, "      case %d: %s[0] = Scalars%d(row); break;\n", c,
                          code.shared, c);
    absl::StrAppendFormat(&update_cases, "      case %d: Update%d(row, %s[0], q); break;\n", c, c,
                          code.shared);
  }
  absl::StrAppendFormat(&text,
                        "extern \"C\" __global__ void __launch_bounds__(%d, 1)\nkernel(void* "
                        "const* __restrict__ table%s) {\n",
                        schedule_.threads, guard_.present ? ", const unsigned char* guard" : "");
  if (guard_.present) absl::StrAppend(&text, "  if (*guard == 0) return;\n");
  absl::StrAppend(&text, absl::StrJoin(scalars, ""));
  absl::StrAppendFormat(&text,
                        "  const int block = static_cast<int>(blockIdx.x);\n"
                        "  const int tensor = OptimizerTensor(kFirstBlock, %d, block);\n"
                        "  void* const* const row = table + %d * tensor;\n"
                        "  if (threadIdx.x == 0) {\n    switch (kClass[tensor]) {\n%s    }\n  }\n"
                        "  Barrier();\n",
                        pieces_.size(), row_, make_cases);
  absl::StrAppendFormat(
      &text,
      "  const %1$s first = static_cast<%1$s>(block - kFirstBlock[tensor]) * %2$d;\n"
      "#pragma unroll 1\n"
      "  for (%1$s q = first + static_cast<int>(threadIdx.x); q < first + %2$d; q += %3$d) {\n"
      "    if (q >= kVectors[tensor]) break;\n"
      "    switch (kClass[tensor]) {\n%4$s    }\n  }\n}\n",
      count, VectorsPerBlock(), schedule_.threads, update_cases);
  return text;
}

// The addresses of a tensor; rows are equally long, the rest of a short one repeats its first.
std::vector<Argument> OptimizerKernel::Row(const Piece& piece) const {
  std::vector<Argument> row;
  for (int input : piece.inputs) row.push_back({Argument::Kind::kOperand, input});
  for (int output : piece.outputs) row.push_back({Argument::Kind::kResult, output});
  row.resize(static_cast<size_t>(row_), row[0]);
  return row;
}

// A kernel needs a block: where no parameter has elements, it does nothing.
GeneratedKernel OptimizerKernel::Nothing() const {
  return {.family = "optimizer",
          .source =
              "#include \"duotone/prelude.cuh\"\n\n"
              "extern \"C\" __global__ void __launch_bounds__(1) kernel() {}\n",
          .contract = !options_.exact,
          .block = {1, 1, 1}};
}

absl::StatusOr<GeneratedKernel> OptimizerKernel::Generate() {
  DUOTONE_ASSIGN_OR_RETURN(const ExpandedBody body, ExpandBody(*fusion_.body()));
  DUOTONE_ASSIGN_OR_RETURN(pieces_, SplitIntoPieces(*body.graph));
  // Tensors without elements have nothing to do.
  pieces_.erase(std::remove_if(pieces_.begin(), pieces_.end(),
                               [](const Piece& piece) { return piece.elements == 0; }),
                pieces_.end());
  if (pieces_.empty()) return Nothing();
  DUOTONE_ASSIGN_OR_RETURN(const std::vector<Prediction> ranked, RankSchedules());
  schedule_ = ranked.front().schedule;
  DUOTONE_RETURN_IF_ERROR(AddClasses());

  GeneratedKernel kernel{.family = "optimizer",
                         .source = Source(),
                         .contract = !options_.exact,
                         .block = {schedule_.threads, 1, 1},
                         .schedule = schedule_.ToString(),
                         .schedules = ToText(ranked)};
  kernel.grid[0] = 0;
  Argument table{.kind = Argument::Kind::kTable};
  for (size_t i = 0; i < pieces_.size(); ++i) {
    kernel.grid[0] += Blocks(pieces_[i]);
    kernel.flops += classes_[class_of_[i]].flops * static_cast<double>(pieces_[i].elements);
    for (Argument& argument : Row(pieces_[i])) table.table.push_back(std::move(argument));
  }
  kernel.arguments.push_back(std::move(table));
  if (guard_.present) {
    kernel.arguments.push_back({Argument::Kind::kOperand, fusion_.operand_count()});
  }
  for (const ClassCode& code : classes_) {
    kernel.labels.insert(kernel.labels.end(), code.labels.begin(), code.labels.end());
  }
  return kernel;
}

}  // namespace

absl::StatusOr<GeneratedKernel> GenerateOptimizer(const ir::Node& fusion, GuardOption guard,
                                                  const CodegenOptions& options) {
  return OptimizerKernel(fusion, guard, options).Generate();
}

}  // namespace duotone::codegen::cuda
