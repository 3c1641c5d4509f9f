// Kernels of the family pointwise: every result is either a tensor whose elements are computed one
// by one, or a number that is reduced from all elements of such a tensor.
//
//   %y = relu(add(%x, broadcast(%b)))       const int q = blockIdx.x * 256 + threadIdx.x;
//   %ok = all_finite(%y)              ->    if (q < 12500) {
//   return %y, %ok                            <8 elements: load, compute, store, test>
//                                           }
//
// Results fall into groups by their number of elements, whatever their shapes; a group is a range
// of blocks that walks over the elements in row-major order. Reductions of everything (reduce_sum,
// mean, max, min, all_finite) belong to the group of what they reduce, and are results themselves:
// nothing in the kernel reads them. Results of one element need no group of their own where there
// is nothing else; a kernel of such results alone is one thread.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/integer.h"
#include "base/status.h"
#include "codegen/cuda/emitter.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/schedule.h"
#include "codegen/expand.h"

namespace duotone::codegen::cuda {
namespace {

using ir::Op;

constexpr int kMaxVector = 8;
// A block with reductions works on so many elements at a time, with 256 threads.
constexpr int kReducingThreads = 256;

// A result that is reduced from all elements of `operand`.
struct Reduction {
  Finish::Kind kind = Finish::Kind::kSum;
  ir::Value operand;
  int output = -1;
  int finite_output = -1;  // the all_finite output that tests it
  DType partial = DType::kF32;
  std::string name;  // of its accumulator
};

// The elements of one range of blocks.
struct Group {
  int64_t elements = 0;
  std::vector<int> outputs;                        // stored element by element
  std::vector<std::pair<int, ir::Value>> finites;  // all_finite outputs and what they test
  std::vector<Reduction> reductions;

  int widest = 1;      // vector that reads and writes may have
  int64_t blocks = 0;  // of the chosen schedule
  int64_t chunks = 0;  // with reductions: blocks, which no schedule changes
  int64_t chunk_vectors = 0;
};

// The reduction behind an output that only renames or narrows its result, or null.
const ir::Node* ReductionBehind(ir::Value value) {
  while (value.node->op() == Op::kReshape ||
         (value.node->op() == Op::kCast && !IsLow(value.node->operand(0).type().dtype) &&
          IsFloat(value.type().dtype) == IsFloat(value.node->operand(0).type().dtype))) {
    value = value.node->operand(0);
  }
  switch (value.node->op()) {
    case Op::kReduceSum:
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceMin:
      break;
    default:
      return nullptr;
  }
  const bool to_one = value.type().elements() == 1;
  return to_one && value.node->operand(0).type().elements() != 1 ? value.node : nullptr;
}

Finish::Kind KindOf(Op op) {
  switch (op) {
    case Op::kReduceMean:
      return Finish::Kind::kMean;
    case Op::kReduceMax:
      return Finish::Kind::kMax;
    case Op::kReduceMin:
      return Finish::Kind::kMin;
    default:
      return Finish::Kind::kSum;
  }
}

DType PartialOf(DType dtype) {
  if (!IsFloat(dtype)) return DType::kI64;
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// What no element changes. Of integers it is the end of the dtype, which empty tensors give.
std::string IdentityOf(const Reduction& reduction, DType dtype) {
  const bool is_sum = reduction.kind == Finish::Kind::kSum || reduction.kind == Finish::Kind::kMean;
  if (is_sum) return ZeroLiteral(reduction.partial);
  const bool is_max = reduction.kind == Finish::Kind::kMax;
  if (IsFloat(dtype)) {
    const double end = std::numeric_limits<double>::infinity();
    return FloatLiteral(is_max ? -end : end, reduction.partial);
  }
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
  if (dtype == DType::kI32) {
    low = std::numeric_limits<int32_t>::min();
    high = std::numeric_limits<int32_t>::max();
  } else if (dtype == DType::kU8) {
    low = 0;
    high = 255;
  }
  return IntLiteral(is_max ? low : high, DType::kI64);
}

std::string_view CombinerOf(Finish::Kind kind) {
  switch (kind) {
    case Finish::Kind::kMax:
      return "Greatest";
    case Finish::Kind::kMin:
      return "Least";
    default:
      return "Sum";
  }
}

// The results that are tests of the group's values; one may test several.
std::set<int> FlagsOf(const Group& group) {
  std::set<int> flags;
  for (const auto& finite : group.finites) flags.insert(finite.first);
  return flags;
}

class PointwiseGenerator {
 public:
  PointwiseGenerator(const ir::Node& fusion, const ir::Graph& body, const GuardOption& guard,
                     const CodegenOptions& options)
      : fusion_(fusion), body_(body), options_(options), emitter_(body, options) {
    if (guard.present) emitter_.UseGuard();
    emitter_.SetInPlace(guard.in_place);
  }

  absl::StatusOr<GeneratedKernel> Run();

 private:
  absl::Status Collect();
  Group& GroupOf(int64_t elements);
  // Values that the group computes at each of its elements.
  std::vector<ir::Value> ValuesOf(const Group& group) const;
  // True if vectors of `width` read and write the group's elements within their buffers.
  bool IsLegal(const Group& group, int width) const;
  // The widest vector: 16 bytes of the group's narrowest tensor.
  int LimitOf(const Group& group) const;
  void SizeReductions(Group& group) const;
  int SmallestElement() const;
  void AddWork(const Group& group, const Schedule& schedule, Work& work) const;
  Prediction PredictWith(const Schedule& schedule) const;
  std::vector<Schedule> Candidates() const;
  int VectorOf(const Group& group, const Schedule& schedule) const {
    return std::min(group.widest, schedule.vector);
  }

  // The code of one group; its first block is `first`.
  std::string GroupCode(Group& group, const Schedule& schedule, int64_t first);
  std::string ElementsCode(Group& group, const Schedule& schedule, int64_t first);
  std::string ReducingCode(Group& group, const Schedule& schedule, int64_t first);
  // Emits the group's statements into the open site.
  void FillSite(Group& group, const Index& flat, bool masked);
  std::string BlockIndex(int64_t first) const;
  std::string FinishReductions(Group& group, const std::string& chunk, int width);

  const ir::Node& fusion_;
  const ir::Graph& body_;
  const CodegenOptions& options_;
  Emitter emitter_;
  std::vector<Group> groups_;
  GeneratedKernel kernel_;
};

Group& PointwiseGenerator::GroupOf(int64_t elements) {
  for (Group& group : groups_) {
    if (group.elements == elements) return group;
  }
  groups_.emplace_back();
  groups_.back().elements = elements;
  return groups_.back();
}

absl::Status PointwiseGenerator::Collect() {
  std::map<const ir::Node*, std::pair<int64_t, size_t>> reductions;  // group and place by node
  std::vector<std::pair<int, ir::Value>> tests;
  for (size_t i = 0; i < body_.outputs().size(); ++i) {
    const int output = static_cast<int>(i);
    const ir::Value value = body_.outputs()[i].value;
    if (value.node->op() == Op::kAllFinite) {
      for (ir::Value tested : value.node->operands()) tests.emplace_back(output, tested);
      kernel_.finite_results.push_back(output);
      continue;
    }
    const ir::Node* node = ReductionBehind(value);
    if (node == nullptr) {
      GroupOf(value.type().elements()).outputs.push_back(output);
      continue;
    }
    Group& group = GroupOf(node->operand(0).type().elements());
    reductions[node] = {group.elements, group.reductions.size()};
    group.reductions.push_back({.kind = KindOf(node->op()),
                                .operand = node->operand(0),
                                .output = output,
                                .partial = PartialOf(node->operand(0).type().dtype)});
  }
  for (const auto& [output, tested] : tests) {
    const ir::Node* node = ReductionBehind(tested);
    const auto reduced = node == nullptr ? reductions.end() : reductions.find(node);
    if (reduced == reductions.end()) {
      GroupOf(tested.type().elements()).finites.emplace_back(output, tested);
      continue;
    }
    // The second stage tests what it has rounded.
    Reduction& reduction = GroupOf(reduced->second.first).reductions[reduced->second.second];
    if (reduction.finite_output >= 0) {
      return Unimplemented("all_finite: %%%s is tested twice in one kernel %s", tested.name(),
                           fusion_.Place());
    }
    reduction.finite_output = output;
  }
  // A flag that only second stages clear is no business of this kernel.
  std::erase_if(kernel_.finite_results, [&](int output) {
    return std::none_of(groups_.begin(), groups_.end(), [&](const Group& group) {
      return std::any_of(group.finites.begin(), group.finites.end(),
                         [&](const auto& finite) { return finite.first == output; });
    });
  });
  for (Group& group : groups_) {
    for (int width = LimitOf(group); width > 1; width /= 2) {
      if (!IsLegal(group, width)) continue;
      group.widest = width;
      break;
    }
    if (!group.reductions.empty()) SizeReductions(group);
  }
  return absl::OkStatus();
}

std::vector<ir::Value> PointwiseGenerator::ValuesOf(const Group& group) const {
  std::vector<ir::Value> values;
  for (int output : group.outputs) {
    values.push_back(body_.outputs()[static_cast<size_t>(output)].value);
  }
  for (const auto& [output, value] : group.finites) values.push_back(value);
  for (const Reduction& reduction : group.reductions) values.push_back(reduction.operand);
  return values;
}

// Where nothing has 16 bits, eight elements would be two accesses to each tensor with gaps between
// the lanes, which touch all sectors twice.
int PointwiseGenerator::LimitOf(const Group& group) const {
  int smallest = 8;
  bool has_numbers = false;
  const auto see = [&](DType dtype) {
    if (ByteSize(dtype) == 1) return;  // masks
    smallest = std::min(smallest, ByteSize(dtype));
    has_numbers = true;
  };
  for (int input : emitter_.InputsBehind(ValuesOf(group))) {
    const ir::Type& type = body_.inputs()[static_cast<size_t>(input)]->type();
    if (type.elements() == group.elements) see(type.dtype);
  }
  for (int output : group.outputs) {
    see(body_.outputs()[static_cast<size_t>(output)].value.type().dtype);
  }
  return has_numbers ? std::min(kMaxVector, 16 / smallest) : kMaxVector;
}

// Vectors divide the elements, or every tensor is read and written at the element's own position:
// then the last vector ends in the padding of its buffer.
bool PointwiseGenerator::IsLegal(const Group& group, int width) const {
  if (group.elements < width) return false;
  const Index v = Index::Variable("v", width);
  const Index flat = Index::Variable("q", CeilDiv(group.elements, width)) * width + v;
  for (ir::Value value : ValuesOf(group)) {
    const auto sizes = SizesOf(value.type());
    for (const Emitter::Read& read : emitter_.ReadsOf(value, Delinearise(flat, sizes), v, width)) {
      if (!read.whole) return false;
      const bool in_step = read.position == flat || read.position.constant().has_value();
      if (group.elements % width != 0 && (!in_step || read.conditional)) return false;
    }
  }
  return true;
}

// The partition depends on the body alone, so that sums have one order on every architecture and
// under every schedule: a block adds up a chunk of at most 32 vectors per thread.
void PointwiseGenerator::SizeReductions(Group& group) const {
  const int64_t vectors = CeilDiv(std::max<int64_t>(1, group.elements), group.widest);
  const int64_t rounds = CeilDiv(vectors, kReducingThreads);
  const int64_t chunks = std::min(rounds, std::max<int64_t>(512, CeilDiv(rounds, 32)));
  group.chunk_vectors = CeilDiv(rounds, chunks);
  group.chunks = CeilDiv(rounds, group.chunk_vectors);
}

std::vector<Schedule> PointwiseGenerator::Candidates() const {
  const bool reduces = std::any_of(groups_.begin(), groups_.end(),
                                   [](const Group& group) { return !group.reductions.empty(); });
  int widest = 1;
  for (const Group& group : groups_) widest = std::max(widest, group.widest);
  std::vector<Schedule> candidates;
  if (reduces) {
    for (int unroll = 1; unroll <= 8; ++unroll) {
      candidates.push_back({.vector = widest, .unroll = unroll, .threads = kReducingThreads});
    }
    return candidates;
  }
  // Narrower vectors only where an access still moves 16 bytes.
  int narrowest = widest;
  while (narrowest > 1 && narrowest / 2 * SmallestElement() >= 16) narrowest /= 2;
  for (int vector = widest; vector >= narrowest; vector /= 2) {
    for (int unroll : {1, 2, 4}) {
      for (int threads : {128, 256, 512}) {
        candidates.push_back({.vector = vector, .unroll = unroll, .threads = threads});
      }
    }
  }
  return candidates;
}

// Bytes of an element of the narrowest tensor that is no mask.
int PointwiseGenerator::SmallestElement() const {
  int smallest = 8;
  const auto see = [&](const ir::Type& type) {
    if (ByteSize(type.dtype) > 1) smallest = std::min(smallest, ByteSize(type.dtype));
  };
  for (const ir::Node* input : body_.inputs()) see(input->type());
  for (const ir::Output& output : body_.outputs()) see(output.value.type());
  return smallest;
}

// Adds the work of one group.
void PointwiseGenerator::AddWork(const Group& group, const Schedule& schedule, Work& work) const {
  const int width = VectorOf(group, schedule);
  const int64_t vectors = CeilDiv(group.elements, width);
  const int64_t per_block = static_cast<int64_t>(schedule.threads) * schedule.unroll;
  const int64_t blocks = group.reductions.empty() ? CeilDiv(vectors, per_block) : group.chunks;
  double loads = 0;
  double load_bytes = 0;   // per thread and copy
  double store_bytes = 0;  // per thread
  for (int input : emitter_.InputsBehind(ValuesOf(group))) {
    const ir::Type& type = body_.inputs()[static_cast<size_t>(input)]->type();
    const int bytes = ByteSize(type.dtype) * width;
    loads += std::max(1, bytes / 16);
    load_bytes += type.elements() == 1 ? 4 : bytes;
  }
  double stores = 0;
  for (int output : group.outputs) {
    const ir::Type& type = body_.outputs()[static_cast<size_t>(output)].value.type();
    stores += std::max(1, ByteSize(type.dtype) * width / 16);
    store_bytes += ByteSize(type.dtype) * width;
    work.bytes_written += static_cast<double>(type.bytes());
  }
  for (const Reduction& reduction : group.reductions) {
    store_bytes += ByteSize(reduction.partial) * width;
  }
  work.blocks += blocks;
  work.instructions +=
      static_cast<double>(vectors) * (12.0 + 3.0 * loads + 3.0 * stores + 1.5 * width);
  work.flops += static_cast<double>(group.elements) * static_cast<double>(body_.node_count());
  // Threads without a vector of their own have nothing in flight.
  const double busy =
      std::min(1.0, static_cast<double>(vectors) /
                        static_cast<double>(std::max<int64_t>(1, blocks) * per_block));
  work.bytes_in_flight_per_thread =
      std::max(work.bytes_in_flight_per_thread, busy * load_bytes * schedule.unroll);
  work.registers =
      std::max(work.registers,
               24 + 2 * width + static_cast<int>((load_bytes * schedule.unroll + store_bytes) / 4));
}

Prediction PointwiseGenerator::PredictWith(const Schedule& schedule) const {
  Work work{.blocks = 0, .registers = 0, .bytes_in_flight_per_thread = 4};
  std::vector<ir::Value> results;
  for (const ir::Output& output : body_.outputs()) results.push_back(output.value);
  for (int input : emitter_.InputsBehind(results)) {
    work.bytes_read +=
        static_cast<double>(body_.inputs()[static_cast<size_t>(input)]->type().bytes());
  }
  for (const Group& group : groups_) AddWork(group, schedule, work);
  for (const auto& node : body_.nodes()) {
    work.mufu += MufuOf(*node) * static_cast<double>(node->type().elements());
  }
  work.blocks = std::max<int64_t>(1, work.blocks);
  // Many copies of many operands would spill: such a candidate fits nothing.
  constexpr int kMostRegisters = 128;
  if (schedule.unroll > 1 && work.registers > kMostRegisters) work.registers = 256;
  work.registers = std::min(work.registers, schedule.unroll > 1 ? 256 : kMostRegisters);
  return Predict(*options_.target, schedule, work);
}

std::string PointwiseGenerator::BlockIndex(int64_t first) const {
  const std::string index =
      emitter_.IndexType() == "int" ? "blockIdx.x" : "static_cast<long long>(blockIdx.x)";
  return first == 0 ? index : absl::StrFormat("(%s - %d)", index, first);
}

void PointwiseGenerator::FillSite(Group& group, const Index& flat, bool masked) {
  const auto at = [&](ir::Value value) { return Delinearise(flat, SizesOf(value.type())); };
  const std::string mask =
      masked ? absl::StrFormat("%s < %d", flat.ToString(), group.elements) : "";
  for (int output : group.outputs) {
    const ir::Value value = body_.outputs()[static_cast<size_t>(output)].value;
    emitter_.Store(output, at(value), emitter_.Get(value, at(value)));
  }
  for (const auto& [output, value] : group.finites) {
    const std::string stored = emitter_.GetStored(value, at(value));
    const std::string test =
        value.type().dtype == DType::kBool ? stored : absl::StrCat("IsFinite(", stored, ")");
    emitter_.InLoop(absl::StrFormat(
        "finite%d &= %s%s;", output,
        masked ? absl::StrCat(flat.ToString(), " >= ", group.elements, " || ") : "", test));
  }
  for (const Reduction& reduction : group.reductions) {
    const std::string value = emitter_.Get(reduction.operand, at(reduction.operand));
    const bool is_wider =
        reduction.partial == DType::kI64 && reduction.operand.type().dtype != DType::kI64;
    const std::string widened =
        is_wider ? absl::StrCat("static_cast<long long>(", value, ")") : value;
    const std::string lane =
        absl::StrFormat("%s[%s]", reduction.name, group.widest == 1 ? "0" : "v");
    const std::string combined =
        absl::StrFormat("%s::Of(%s, %s)", CombinerOf(reduction.kind), lane, widened);
    emitter_.InLoop(masked ? absl::StrFormat("if (%s) %s = %s;", mask, lane, combined)
                           : absl::StrFormat("%s = %s;", lane, combined));
  }
}

std::string PointwiseGenerator::ElementsCode(Group& group, const Schedule& schedule,
                                             int64_t first) {
  const int width = VectorOf(group, schedule);
  const int64_t vectors = CeilDiv(group.elements, width);
  const int64_t per_block = static_cast<int64_t>(schedule.threads) * schedule.unroll;
  group.blocks = CeilDiv(vectors, per_block);
  const std::string type = emitter_.IndexType();
  const Index v = Index::Variable("v", width);
  const Index flat = Index::Variable("q", vectors) * width + v;
  const bool masked = group.elements % width != 0;
  const bool whole = vectors % per_block == 0;
  const std::string inside = absl::StrFormat("q < %d", vectors);
  std::string code;
  for (int flag : FlagsOf(group)) absl::StrAppendFormat(&code, "  bool finite%d = true;\n", flag);
  Emitter::Site site{.vector = v, .width = width};
  if (masked) site.lane_guard = absl::StrFormat("%s < %d", flat.ToString(), group.elements);
  if (group.elements == 1) {
    emitter_.BeginSite(site);
    FillSite(group, 0, false);
    const bool alone = schedule.threads == 1;
    if (!alone) absl::StrAppend(&code, "  if (threadIdx.x == 0) {\n");
    absl::StrAppend(&code, emitter_.EndSite(alone ? 2 : 4));
    if (!alone) absl::StrAppend(&code, "  }\n");
  } else if (schedule.unroll == 1) {
    absl::StrAppendFormat(&code, "  const %s q = %s * %d + threadIdx.x;\n", type, BlockIndex(first),
                          schedule.threads);
    emitter_.BeginSite(site);
    FillSite(group, flat, masked);
    if (!whole) absl::StrAppend(&code, "  if (", inside, ") {\n");
    absl::StrAppend(&code, emitter_.EndSite(whole ? 2 : 4));
    if (!whole) absl::StrAppend(&code, "  }\n");
  } else {
    site.copy = "u";
    site.copies = schedule.unroll;
    emitter_.BeginSite(site);
    FillSite(group, flat, masked);
    const Emitter::Parts parts = emitter_.EndSiteParts(whole ? 4 : 6);
    absl::StrAppendFormat(&code, "  const %s first = %s * %d + threadIdx.x;\n", type,
                          BlockIndex(first), per_block);
    absl::StrAppend(&code, parts.declarations);
    for (const std::string* part : {&parts.loads, &parts.body}) {
      if (part->empty()) continue;
      absl::StrAppendFormat(&code,
                            "#pragma unroll\n"
                            "  for (int u = 0; u < %d; ++u) {\n"
                            "    const %s q = first + %d * u;\n",
                            schedule.unroll, type, schedule.threads);
      if (!whole) absl::StrAppend(&code, "    if (", inside, ") {\n");
      absl::StrAppend(&code, *part);
      if (!whole) absl::StrAppend(&code, "    }\n");
      absl::StrAppend(&code, "  }\n");
    }
  }
  return code;
}

// A chunk is `chunk_vectors` rounds of 256 vectors; each lane adds its own elements in order.
std::string PointwiseGenerator::ReducingCode(Group& group, const Schedule& schedule,
                                             int64_t first) {
  const int width = group.widest;
  const int64_t vectors = CeilDiv(group.elements, width);
  group.blocks = group.chunks;
  const std::string type = emitter_.IndexType();
  const Index v = Index::Variable("v", width);
  const Index flat = Index::Variable("q", vectors) * width + v;
  const bool masked = group.elements % width != 0;
  const int unroll = static_cast<int>(std::min<int64_t>(schedule.unroll, group.chunk_vectors));
  std::string code = absl::StrFormat("  const int chunk = blockIdx.x%s;\n",
                                     first == 0 ? "" : absl::StrFormat(" - %d", first));
  for (int flag : FlagsOf(group)) absl::StrAppendFormat(&code, "  bool finite%d = true;\n", flag);
  for (Reduction& reduction : group.reductions) {
    reduction.name = absl::StrCat("sum", reduction.output);
    absl::StrAppendFormat(&code, "  Vec<%s, %d> %s = Filled<%d>(%s);\n",
                          ComputeType(reduction.partial), width, reduction.name, width,
                          IdentityOf(reduction, reduction.operand.type().dtype));
  }
  Emitter::Site site{.vector = v, .width = width};
  if (masked) site.lane_guard = absl::StrFormat("%s < %d", flat.ToString(), group.elements);
  site.copy = unroll > 1 ? "u" : "";
  site.copies = unroll;
  emitter_.BeginSite(site);
  FillSite(group, flat, masked);
  const Emitter::Parts parts = emitter_.EndSiteParts(unroll > 1 ? 8 : 6, 4);
  const std::string start =
      type == "int" ? "chunk" : absl::StrCat("static_cast<", type, ">(chunk)");
  absl::StrAppendFormat(&code, "  for (int i = 0; i < %d; i += %d) {\n", group.chunk_vectors,
                        unroll);
  const std::string tail = group.chunk_vectors % unroll == 0
                               ? ""
                               : absl::StrFormat("i + u < %d && ", group.chunk_vectors);
  if (unroll > 1) {
    absl::StrAppend(&code, parts.declarations);
    for (const std::string* part : {&parts.loads, &parts.body}) {
      if (part->empty()) continue;
      absl::StrAppendFormat(&code,
                            "#pragma unroll\n"
                            "    for (int u = 0; u < %d; ++u) {\n"
                            "      const %s q = (%s * %d + i + u) * %d + threadIdx.x;\n"
                            "      if (%sq < %d) {\n",
                            unroll, type, start, group.chunk_vectors, kReducingThreads, tail,
                            vectors);
      absl::StrAppend(&code, *part, "      }\n    }\n");
    }
  } else {
    absl::StrAppendFormat(&code,
                          "    const %s q = (%s * %d + i) * %d + threadIdx.x;\n"
                          "    if (q < %d) {\n",
                          type, start, group.chunk_vectors, kReducingThreads, vectors);
    absl::StrAppend(&code, parts.declarations, parts.loads, parts.body, "    }\n");
  }
  absl::StrAppend(&code, "  }\n");
  return absl::StrCat(code, FinishReductions(group, "chunk", width));
}

std::string PointwiseGenerator::FinishReductions(Group& group, const std::string& chunk,
                                                 int width) {
  std::string code;
  for (const Reduction& reduction : group.reductions) {
    const std::string type = ComputeType(reduction.partial);
    const std::string_view how = CombinerOf(reduction.kind);
    const int temporary = static_cast<int>(kernel_.temporaries.size());
    const std::string partial = absl::StrCat("partial", reduction.output);
    kernel_.temporaries.push_back(
        {.what = absl::StrCat("partial results of %", fusion_.name(reduction.output)),
         .bytes = group.chunks * ByteSize(reduction.partial)});
    kernel_.finishes.push_back({.kind = reduction.kind,
                                .temporary = temporary,
                                .result = reduction.output,
                                .chunks = group.chunks,
                                .elements = 1,
                                .count = static_cast<double>(group.elements),
                                .finite_result = reduction.finite_output,
                                .partial = reduction.partial});
    if (reduction.kind != Finish::Kind::kMean) kernel_.finishes.back().count = 1;
    emitter_.AddParameter(absl::StrFormat("%s* __restrict__ %s", type, partial),
                          {.kind = Argument::Kind::kTemporary, .index = temporary});
    // Neighbouring lanes first, then the threads.
    for (int step = width / 2; step > 0; step /= 2) {
      absl::StrAppendFormat(&code,
                            "#pragma unroll\n"
                            "  for (int v = 0; v < %d; ++v) %s[v] = %s::Of(%s[v], %s[v + %d]);\n",
                            step, reduction.name, how, reduction.name, reduction.name, step);
    }
    absl::StrAppendFormat(&code,
                          "  DUOTONE_SHARED(%s, exchange%d, %d);\n"
                          "  const %s total%d = ReduceThreads<%s, %d>(%s[0], exchange%d);\n"
                          "  if (threadIdx.x == 0) %s[%s] = total%d;\n",
                          type, reduction.output, kReducingThreads / 32, type, reduction.output,
                          how, kReducingThreads, reduction.name, reduction.output, partial, chunk,
                          reduction.output);
  }
  return code;
}

std::string PointwiseGenerator::GroupCode(Group& group, const Schedule& schedule, int64_t first) {
  std::string code = group.reductions.empty() ? ElementsCode(group, schedule, first)
                                              : ReducingCode(group, schedule, first);
  for (int flag : FlagsOf(group)) {
    absl::StrAppendFormat(&code, "  if (!finite%d) AtomicAnd(%s, 0);\n", flag,
                          emitter_.FlagParameter(flag));
  }
  return code;
}

absl::StatusOr<GeneratedKernel> PointwiseGenerator::Run() {
  DUOTONE_RETURN_IF_ERROR(Collect());
  // Reductions of nothing still have a result; other groups without elements have none.
  std::erase_if(groups_,
                [](const Group& group) { return group.elements == 0 && group.reductions.empty(); });
  Schedule schedule{.vector = 1, .unroll = 1, .threads = 1};
  const bool is_scalar = std::all_of(groups_.begin(), groups_.end(), [](const Group& group) {
    return group.elements == 1 && group.reductions.empty();
  });
  if (!is_scalar) {
    std::vector<Prediction> predictions;
    for (const Schedule& candidate : Candidates()) predictions.push_back(PredictWith(candidate));
    DUOTONE_ASSIGN_OR_RETURN(
        const std::vector<Prediction> ranked,
        Rank(*options_.target, std::move(predictions), options_.schedules, fusion_.name()));
    schedule = ranked.front().schedule;
    kernel_.schedules = ToText(ranked);
  }
  kernel_.schedule = schedule.ToString();
  std::string code;
  int64_t blocks = 0;
  bool reduces = false;
  for (Group& group : groups_) {
    std::string part = GroupCode(group, schedule, blocks);
    reduces = reduces || !group.reductions.empty();
    if (groups_.size() > 1) {
      const bool is_first = &group == &groups_.front();
      const bool is_last = &group == &groups_.back();
      const std::string condition =
          is_last ? "" : absl::StrFormat("if (blockIdx.x < %du) ", blocks + group.blocks);
      part = absl::StrCat(is_first ? "  " : " else ", condition, "{\n", Indent(part, 2), "  }",
                          is_last ? "\n" : "");
    }
    absl::StrAppend(&code, part);
    blocks += group.blocks;
  }
  DUOTONE_RETURN_IF_ERROR(emitter_.status());
  kernel_.family = "pointwise";
  std::vector<std::string> headers;
  if (reduces) headers.push_back("duotone/reduce.cuh");
  kernel_.source = emitter_.KernelText(code, schedule.threads, headers);
  kernel_.contract = !options_.exact;
  kernel_.grid = {std::max<int64_t>(1, blocks), 1, 1};
  kernel_.block = {schedule.threads, 1, 1};
  kernel_.arguments = emitter_.Arguments();
  kernel_.labels = emitter_.labels();
  for (const auto& node : body_.nodes()) {
    llvm::SmallVector<ir::Type, 4> operands;
    for (ir::Value operand : node->operands()) operands.push_back(operand.type());
    kernel_.flops += node->def().cost(operands, node->types(), node->attrs()).flops;
  }
  return std::move(kernel_);
}

}  // namespace

absl::StatusOr<GeneratedKernel> GeneratePointwise(const ir::Node& fusion, GuardOption guard,
                                                  const CodegenOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(const ExpandedBody body, ExpandBody(*fusion.body()));
  return PointwiseGenerator(fusion, *body.graph, guard, options).Run();
}

}  // namespace duotone::codegen::cuda
