// The emitter's reads, writes and roundings, and what a kernel is put together from.
#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "codegen/cuda/emitter.h"
#include "llvm/ADT/DenseSet.h"

namespace duotone::codegen::cuda {

using ir::Op;

namespace {

bool IsAutocast(const ir::Node& node) { return node.info().dtype_origin.rfind("autocast", 0) == 0; }

// What `expression`, of the compute type of `dtype`, is when stored.
std::string Narrowed(const std::string& expression, DType dtype) {
  if (IsLow(dtype)) {
    return absl::StrCat("FromFloat<", StorageType(dtype), ">(", expression, ")");
  }
  if (StorageType(dtype) == ComputeType(dtype)) return expression;
  return absl::StrCat("static_cast<", StorageType(dtype), ">(", expression, ")");
}

// `base + position` as a pointer.
std::string Pointer(const std::string& base, const Index& position) {
  if (position == Index(0)) return base;
  return absl::StrCat(base, " + ", position.ToString());
}

// The elements to which a position is known to be aligned, up to `width`, a power of two.
int64_t AlignmentOf(const Index& position, int width) {
  return std::gcd(position.divisor(), static_cast<int64_t>(width));
}

}  // namespace

// ---- Rounding

bool Emitter::IsFast(ir::Value value) const {
  return !options_.exact && IsLow(value.type().dtype) && IsAutocast(*value.node);
}

bool Emitter::IsRounded(ir::Value value) const {
  const ir::Node& node = *value.node;
  if (!IsLow(value.type().dtype) || options_.exact || node.op() == Op::kInput) return true;
  const bool is_bound = bound_.contains({value.node, value.index});
  const bool moves = node.def().lower == ir::Lower::kView || node.op() == Op::kGather;
  if (!is_bound && node.op() == Op::kConstant) return true;
  if (!is_bound && moves) {
    const auto sources = node.op() == Op::kGather ? node.operands().take_front(1) : node.operands();
    return std::all_of(sources.begin(), sources.end(),
                       [&](ir::Value source) { return IsRounded(source); });
  }
  if (!IsAutocast(node)) return true;
  const OpExpression* row = FindOpExpression(node.op());
  if (is_bound || row == nullptr || !row->picks) return false;
  return std::all_of(node.operands().begin(), node.operands().end(),
                     [&](ir::Value operand) { return IsRounded(operand); });
}

std::string Emitter::Rounded(ir::Value value, std::string expression) const {
  const ir::Node& node = *value.node;
  const DType dtype = value.type().dtype;
  if (!IsLow(dtype) || (!options_.exact && IsAutocast(node))) return expression;
  const OpExpression* row = FindOpExpression(node.op());
  const bool is_exact = row != nullptr && row->picks &&
                        std::all_of(node.operands().begin(), node.operands().end(),
                                    [&](ir::Value operand) { return IsRounded(operand); });
  if (is_exact) return expression;
  return absl::StrCat("Round<", StorageType(dtype), ">(", expression, ")");
}

Emitter::Element Emitter::Stored(ir::Value value, const Coordinates& at) {
  const Element element = Resolve(value, at);
  if (IsRounded(value)) return element;
  const Key key{value.node, 1000 + value.index, at, ConditionText()};
  const auto known = memo_.find(key);
  if (known != memo_.end()) return known->second;
  const std::string name = NewName('t');
  AddLine(element.lane ? loop_ : before_,
          absl::StrFormat("const float %s = Round<%s>(%s);", name, StorageType(value.type().dtype),
                          element.text),
          value.node);
  const Element stored{name, element.lane};
  memo_[key] = stored;
  return stored;
}

// ---- Reads

Emitter::Element Emitter::Widened(const std::string& stored, DType dtype, bool lane) const {
  if (IsLow(dtype)) return {absl::StrCat("ToFloat(", stored, ")"), lane};
  if (dtype == DType::kBool) return {absl::StrCat("(", stored, " != 0)"), lane};
  if (dtype == DType::kU8) return {absl::StrCat("static_cast<int>(", stored, ")"), lane};
  return {stored, lane};
}

Emitter::Element Emitter::LoadInput(int input, const Coordinates& at) {
  const ir::Type& type = body_.inputs()[static_cast<size_t>(input)]->type();
  const Index position = Linearise(at, SizesOf(type));
  const bool lane = DependsOnLane(position) || ConditionsDependOnLane();
  const auto split = lane ? position.SplitBy(site_.vector) : std::nullopt;
  const bool is_vector =
      split && split->stride == 1 && !DependsOnLane(split->base) && !ConditionsDependOnLane();
  if (reads_ != nullptr) {
    const int access = std::min(site_.width, 16 / ByteSize(type.dtype));
    const bool whole = !lane || (is_vector && AlignmentOf(split->base, site_.width) % access == 0);
    reads_->push_back({input, position, !conditions_.empty(), whole});
  }
  return is_vector ? LoadVector(input, split->base, site_.width)
                   : LoadScalar(input, position, lane);
}

Emitter::Element Emitter::LoadVector(int input, const Index& base, int width) {
  const ir::Node* node = body_.inputs()[static_cast<size_t>(input)];
  const DType dtype = node->type().dtype;
  const std::string condition = ConditionText();
  const Key key{node, -3, {base}, condition};
  auto known = memo_.find(key);
  if (known == memo_.end()) {
    const std::string type = absl::StrFormat("Vec<%s, %d>", StorageType(dtype), width);
    std::string expression = loader_ == nullptr ? "" : loader_(input, base, width);
    bool is_early = !UsesRuntimeIndex(base) && ConditionsAreKnownEarly();
    if (!expression.empty()) {
      is_early = false;
      if (!condition.empty()) {
        expression = absl::StrCat(condition, " ? ", expression, " : ", type, "{}");
      }
    } else {
      read_.insert(input);
      const int64_t aligned = AlignmentOf(base, width);
      const std::string sizes =
          aligned == width ? absl::StrCat(width) : absl::StrCat(width, ", ", aligned);
      const std::string pointer = Pointer(absl::StrCat("in", input), base);
      expression = condition.empty()
                       ? absl::StrFormat("Load<%s>(%s)", sizes, pointer)
                       : absl::StrFormat("LoadIf<%s>(%s, %s)", sizes, condition, pointer);
    }
    std::string name = NewName('x');
    if (is_early && site_.copies > 1) {
      AddLine(declarations_, absl::StrFormat("%s %s[%d];", type, name, site_.copies));
      absl::StrAppend(&name, "[", site_.copy, "]");
      AddLine(loads_, absl::StrCat(name, " = ", expression, ";"));
    } else {
      AddLine(is_early ? loads_ : before_,
              absl::StrCat("const ", type, " ", name, " = ", expression, ";"));
    }
    known = memo_.emplace(key, Element{name, true}).first;
  }
  return Widened(absl::StrFormat("%s[%s]", known->second.text, site_.vector.ToString()), dtype,
                 true);
}

Emitter::Element Emitter::LoadScalar(int input, const Index& position, bool lane) {
  const ir::Node* node = body_.inputs()[static_cast<size_t>(input)];
  const DType dtype = node->type().dtype;
  const std::string condition = ConditionText();
  const Key key{node, -4, {position}, condition};
  auto known = memo_.find(key);
  if (known == memo_.end()) {
    const std::string type = StorageType(dtype);
    std::string expression = loader_ == nullptr ? "" : loader_(input, position, 1);
    bool is_early = !lane && !UsesRuntimeIndex(position) && ConditionsAreKnownEarly();
    if (!expression.empty()) {
      is_early = false;
      if (!condition.empty()) {
        // A type of two words has no braces.
        const bool is_plain = absl::StrContains(type, ' ');
        expression = absl::StrCat(
            condition, " ? ", expression, " : ",
            is_plain ? absl::StrCat("static_cast<", type, ">(0)") : absl::StrCat(type, "{}"));
      }
    } else {
      read_.insert(input);
      const std::string array = absl::StrCat("in", input);
      expression = condition.empty()
                       ? absl::StrCat(array, "[", position.ToString(), "]")
                       : absl::StrCat("LoadIf(", condition, ", ", Pointer(array, position), ")");
    }
    std::string name = NewName('x');
    // The same element for all copies is loaded once.
    const bool is_array =
        is_early && site_.copies > 1 && (!position.constant().has_value() || !condition.empty());
    if (is_array) {
      AddLine(declarations_, absl::StrFormat("%s %s[%d];", type, name, site_.copies));
      absl::StrAppend(&name, "[", site_.copy, "]");
      AddLine(loads_, absl::StrCat(name, " = ", expression, ";"));
    } else if (is_early && site_.copies > 1) {
      AddLine(declarations_, absl::StrCat("const ", type, " ", name, " = ", expression, ";"));
    } else {
      AddLine(lane       ? loop_
              : is_early ? loads_
                         : before_,
              absl::StrCat("const ", type, " ", name, " = ", expression, ";"));
    }
    known = memo_.emplace(key, Element{name, lane}).first;
  }
  return Widened(known->second.text, dtype, lane);
}

std::vector<Emitter::Read> Emitter::ReadsOf(llvm::ArrayRef<ir::Value> values, const Coordinates& at,
                                            const Index& vector, int width) const {
  Emitter probe(body_, options_);
  for (const auto& [value, getter] : bound_) {
    probe.bound_[value] = [](const Coordinates&) { return std::string("0"); };
  }
  std::vector<Read> reads;
  probe.reads_ = &reads;
  probe.BeginSite({.vector = vector, .width = width});
  for (ir::Value value : values) probe.Get(value, at);
  return reads;
}

int Emitter::WidestVector(llvm::ArrayRef<ir::Value> values, llvm::ArrayRef<int64_t> shape,
                          int limit) const {
  if (shape.empty()) return 1;
  for (int width = limit; width > 1; width /= 2) {
    if (shape.back() % width != 0) continue;
    const Index v = Index::Variable("v", width);
    Coordinates at;
    for (size_t i = 0; i + 1 < shape.size(); ++i) {
      at.push_back(Index::Variable(absl::StrCat("i", i), shape[i]));
    }
    at.push_back(Index::Variable("q", shape.back() / width) * width + v);
    const std::vector<Read> reads = ReadsOf(values, at, v, width);
    if (std::all_of(reads.begin(), reads.end(), [](const Read& read) { return read.whole; })) {
      return width;
    }
  }
  return 1;
}

std::vector<int> Emitter::InputsBehind(llvm::ArrayRef<ir::Value> values) const {
  std::set<int> inputs;
  llvm::DenseSet<const ir::Node*> seen;
  std::vector<ir::Value> work(values.begin(), values.end());
  while (!work.empty()) {
    const ir::Value value = work.back();
    work.pop_back();
    if (bound_.contains({value.node, value.index}) || !seen.insert(value.node).second) continue;
    const auto input = input_index_.find(value.node);
    if (input != input_index_.end()) inputs.insert(input->second);
    work.insert(work.end(), value.node->operands().begin(), value.node->operands().end());
  }
  return {inputs.begin(), inputs.end()};
}

// ---- Writes

void Emitter::Store(int output, const Coordinates& at, const std::string& expression) {
  const ir::Type& type = body_.outputs()[static_cast<size_t>(output)].value.type();
  const std::string out = absl::StrCat("out", output);
  const std::string stored = Narrowed(expression, type.dtype);
  const Index position = Linearise(at, SizesOf(type));
  const std::string guarded = site_.guard.empty() ? "" : absl::StrCat("if (", site_.guard, ") ");
  written_.insert(output);
  if (!DependsOnLane(position)) {
    AddLine(after_, absl::StrCat(guarded, out, "[", position.ToString(), "] = ", stored, ";"));
    return;
  }
  const auto split = position.SplitBy(site_.vector);
  if (!split || split->stride != 1 || DependsOnLane(split->base)) {
    std::vector<std::string> conditions;
    for (const std::string& condition : {site_.guard, site_.lane_guard}) {
      if (!condition.empty()) conditions.push_back(condition);
    }
    const std::string test =
        conditions.empty() ? "" : absl::StrCat("if (", absl::StrJoin(conditions, " && "), ") ");
    AddLine(loop_, absl::StrCat(test, out, "[", position.ToString(), "] = ", stored, ";"));
    return;
  }
  const std::string name = NewName('y');
  AddLine(before_, absl::StrFormat("Vec<%s, %d> %s;", StorageType(type.dtype), site_.width, name));
  AddLine(loop_, absl::StrFormat("%s[%s] = %s;", name, site_.vector.ToString(), stored));
  const int64_t aligned = AlignmentOf(split->base, site_.width);
  AddLine(after_, absl::StrFormat("%sStore%s(%s, %s);", guarded,
                                  aligned == site_.width ? "" : absl::StrCat("<", aligned, ">"),
                                  Pointer(out, split->base), name));
}

// ---- The kernel

void Emitter::AddParameter(std::string declaration, Argument argument) {
  parameters_.emplace_back(std::move(declaration), std::move(argument));
}

std::string Emitter::InputParameter(int input) {
  read_.insert(input);
  return absl::StrCat("in", input);
}

std::string Emitter::FlagParameter(int output) {
  return flags_[output] = absl::StrCat("flag", output);
}

std::vector<std::pair<std::string, Argument>> Emitter::AllParameters() const {
  using Kind = Argument::Kind;
  std::vector<std::pair<std::string, Argument>> all;
  for (int input : read_) {
    const DType dtype = body_.inputs()[static_cast<size_t>(input)]->type().dtype;
    all.emplace_back(absl::StrFormat("const %s* %sin%d", StorageType(dtype),
                                     in_place_.contains(input) ? "" : "__restrict__ ", input),
                     Argument{.kind = Kind::kOperand, .index = input});
  }
  for (int output : written_) {
    const DType dtype = body_.outputs()[static_cast<size_t>(output)].value.type().dtype;
    all.emplace_back(absl::StrFormat("%s* %sout%d", StorageType(dtype),
                                     in_place_.empty() ? "__restrict__ " : "", output),
                     Argument{.kind = Kind::kResult, .index = output});
  }
  for (const auto& [output, name] : flags_) {
    all.emplace_back(absl::StrCat("int* ", name), Argument{.kind = Kind::kResult, .index = output});
  }
  all.insert(all.end(), parameters_.begin(), parameters_.end());
  if (guard_) {
    all.emplace_back(
        "const unsigned char* guard",
        Argument{.kind = Kind::kOperand, .index = static_cast<int>(body_.inputs().size())});
  }
  if (!streams_.empty()) {
    all.emplace_back("const RandomState* random", Argument{.kind = Kind::kRandom});
  }
  for (size_t i = 0; i < streams_.size(); ++i) {
    const uint64_t id = streams_[i]->id();
    const auto part = [&](std::string_view name, uint64_t bits) {
      all.emplace_back(
          absl::StrFormat("int stream%d_%s", i, name),
          Argument{.kind = Kind::kInt, .value = static_cast<int32_t>(static_cast<uint32_t>(bits))});
    };
    part("low", id);
    part("high", id >> 32);
  }
  if (errors_) {
    all.emplace_back("ErrorRecord* errors", Argument{.kind = Kind::kErrors});
    all.emplace_back("int step", Argument{.kind = Kind::kStep});
  }
  return all;
}

std::string Emitter::Parameters() const {
  std::vector<std::string> declarations;
  for (const auto& [declaration, argument] : AllParameters()) declarations.push_back(declaration);
  return absl::StrJoin(declarations, ",\n       ");
}

std::vector<Argument> Emitter::Arguments() const {
  std::vector<Argument> arguments;
  for (const auto& [declaration, argument] : AllParameters()) arguments.push_back(argument);
  return arguments;
}

std::string Emitter::Declarations() const { return absl::StrJoin(tables_, ""); }

std::string Emitter::Prologue(int indent) const {
  std::string text;
  if (guard_) absl::StrAppend(&text, "if (*guard == 0) return;\n");
  for (size_t i = 0; i < streams_.size(); ++i) {
    absl::StrAppendFormat(
        &text,
        "const RandomStream stream%d = MakeRandomStream(random, stream%d_low, stream%d_high);\n", i,
        i, i);
  }
  return Indent(text, indent);
}

std::string Emitter::KernelText(const std::string& code, int threads,
                                llvm::ArrayRef<std::string> headers) const {
  std::string includes = "#include \"duotone/prelude.cuh\"\n";
  for (const std::string& header : headers) {
    absl::StrAppend(&includes, "#include \"", header, "\"\n");
  }
  const std::string declarations = Declarations();
  return absl::StrCat(includes, "\n", declarations, declarations.empty() ? "" : "\n",
                      "extern \"C\" __global__ void __launch_bounds__(", threads, ")\nkernel(",
                      Parameters(), ") {\n", Prologue(), code, "}\n");
}

}  // namespace duotone::codegen::cuda
