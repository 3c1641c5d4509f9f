#include "codegen/cuda/emitter.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"

namespace duotone::codegen::cuda {

using ir::Op;

namespace {

bool IsIdentifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

std::string Indent(const std::string& text, int spaces) {
  std::string result;
  for (const auto line : absl::StrSplit(text, '\n')) {
    if (!line.empty()) {
      if (line[0] != '#') result.append(static_cast<size_t>(spaces), ' ');
      result.append(line.data(), line.size());
    }
    result += '\n';
  }
  result.pop_back();
  return result;
}

bool Mentions(const std::string& text, const std::string& name) {
  if (name.empty()) return false;
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool begins = at == 0 || !IsIdentifier(text[at - 1]);
    if (begins && (end == text.size() || !IsIdentifier(text[end]))) return true;
  }
  return false;
}

std::string LabelOf(const ir::Node& node) {
  return absl::StrFormat("%s %s", node.def().name, node.Place());
}

llvm::SmallVector<int64_t, 6> SizesOf(const ir::Type& type) {
  llvm::SmallVector<int64_t, 6> sizes;
  for (const ir::Dim& dim : type.shape) sizes.push_back(dim.size());
  return sizes;
}

Emitter::Emitter(const ir::Graph& body, const CodegenOptions& options)
    : body_(body), options_(options) {
  // A vector may end beyond the last element.
  constexpr int64_t kLargest = (int64_t{1} << 31) - 4096;
  const auto check = [&](const ir::Type& type) {
    if (type.elements() >= kLargest) index_type_ = "long long";
  };
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    input_index_[body.inputs()[i]] = static_cast<int>(i);
    check(body.inputs()[i]->type());
  }
  for (const auto& node : body.nodes()) {
    for (const ir::Type& type : node->types()) check(type);
  }
}

void Emitter::UseGuard() { guard_ = true; }

void Emitter::SetInPlace(llvm::ArrayRef<int> operands) {
  in_place_.insert(operands.begin(), operands.end());
}

// ---- Sites

void Emitter::BeginSite(Site site) {
  site_ = std::move(site);
  memo_.clear();
  conditions_.clear();
  runtime_.clear();
  lane_runtime_.clear();
  for (auto* list : {&declarations_, &loads_, &before_, &loop_, &after_}) list->clear();
}

void Emitter::AddLine(std::vector<Line>& list, std::string text, const ir::Node* node) {
  list.push_back({std::move(text), node == nullptr ? "" : LabelOf(*node)});
}

// One lane has no loop; then statements stay in the order in which they are made.
void Emitter::InLoop(std::string statement) {
  AddLine(site_.width == 1 ? before_ : loop_, std::move(statement));
}
void Emitter::BeforeLoop(std::string statement) { AddLine(before_, std::move(statement)); }
void Emitter::AfterLoop(std::string statement) { AddLine(after_, std::move(statement)); }

std::string LineOfLabel(int label) {
  return absl::StrFormat("#line %d \"%s\"\n", label, runtime::kLabelFile);
}
std::string LineOfNoLabel() { return absl::StrFormat("#line 1 \"%s\"\n", runtime::kNoLabelFile); }

// Statements of nodes are numbered one after the other, so one #line serves a run of them. What
// follows belongs to no node.
std::string Emitter::Format(const std::vector<Line>& lines, int indent) {
  std::string text;
  bool numbered = false;  // the next line has the number of the next label
  bool in_run = false;
  for (const Line& line : lines) {
    if (line.label.empty()) {
      if (in_run) absl::StrAppend(&text, LineOfNoLabel());
      in_run = numbered = false;
    } else {
      const int label = AddLabel(line.label);
      if (!numbered) absl::StrAppend(&text, LineOfLabel(label));
      in_run = true;
      numbered = line.text.find('\n') == std::string::npos;
    }
    absl::StrAppend(&text, Indent(line.text, indent), "\n");
  }
  if (in_run) absl::StrAppend(&text, LineOfNoLabel());
  return text;
}

std::string Emitter::EndSite(int indent) {
  DUOTONE_CHECK(site_.copies == 1) << "EndSiteParts ends a site with copies";
  const Parts parts = EndSiteParts(indent, indent);
  return absl::StrCat(parts.declarations, parts.loads, parts.body);
}

Emitter::Parts Emitter::EndSiteParts(int indent, int declaration_indent) {
  Parts parts;
  parts.declarations = Format(declarations_, declaration_indent);
  parts.loads = Format(loads_, indent);
  parts.body = Format(before_, indent);
  if (!loop_.empty()) {
    if (site_.width == 1) {
      absl::StrAppend(&parts.body, Format(loop_, indent));
    } else {
      const std::string v = site_.vector.ToString();
      absl::StrAppend(
          &parts.body, "#pragma unroll\n",
          Indent(absl::StrFormat("for (int %s = 0; %s < %d; ++%s) {\n", v, v, site_.width, v),
                 indent),
          Format(loop_, indent + 2), std::string(static_cast<size_t>(indent), ' '), "}\n");
    }
  }
  absl::StrAppend(&parts.body, Format(after_, indent));
  return parts;
}

std::string Emitter::NewName(char prefix) {
  return absl::StrCat(std::string(1, prefix), names_[prefix]++);
}

bool Emitter::DependsOnLane(const Index& index) const {
  if (site_.width == 1) return false;
  if (index.Contains(site_.vector)) return true;
  return std::any_of(lane_runtime_.begin(), lane_runtime_.end(), [&](const std::string& name) {
    return index.Contains(Index::Variable(name, 2));
  });
}

bool Emitter::UsesRuntimeIndex(const Index& index) const {
  return std::any_of(runtime_.begin(), runtime_.end(), [&](const std::string& name) {
    return index.Contains(Index::Variable(name, 2));
  });
}

std::string Emitter::ConditionText() const {
  std::vector<std::string> parts;
  if (!site_.guard.empty()) parts.push_back(site_.guard);
  for (const Condition& condition : conditions_) parts.push_back(condition.text);
  return absl::StrJoin(parts, " && ");
}

bool Emitter::ConditionsDependOnLane() const {
  return std::any_of(conditions_.begin(), conditions_.end(),
                     [](const Condition& condition) { return condition.lane; });
}

bool Emitter::ConditionsAreKnownEarly() const {
  return std::none_of(conditions_.begin(), conditions_.end(), [&](const Condition& condition) {
    return std::any_of(runtime_.begin(), runtime_.end(), [&](const std::string& name) {
      return Mentions(condition.text, name) || Mentions(condition.text, name + "_ok");
    });
  });
}

Emitter::Condition Emitter::MakeCondition(const Bounds& bounds) const {
  if (!DependsOnLane(bounds.index)) return {bounds.ToString(), false};
  // Where bounds are multiples of the vector's size, all its elements are on one side.
  const int64_t width = site_.width;
  if (bounds.low % width == 0 && bounds.high % width == 0) {
    const auto split = bounds.index.SplitBy(site_.vector);
    if (split && split->stride == 1 && !DependsOnLane(split->base) &&
        split->base.divisor() % width == 0) {
      return {Bounds{split->base, bounds.low, bounds.high}.ToString(), false};
    }
  }
  return {bounds.ToString(), true};
}

// ---- Elements

std::string Emitter::Get(ir::Value value, const Coordinates& at) { return Resolve(value, at).text; }
std::string Emitter::GetStored(ir::Value value, const Coordinates& at) {
  return Stored(value, at).text;
}

void Emitter::Bind(ir::Value value, Getter get) {
  bound_[{value.node, value.index}] = std::move(get);
}
void Emitter::Unbind(ir::Value value) { bound_.erase({value.node, value.index}); }

Emitter::Element Emitter::Fail(const ir::Node& node) {
  if (status_.ok()) {
    status_ = Unimplemented("%s: has no expression of its own inside a kernel of this family %s",
                            node.def().name, node.Place());
  }
  return {"0", false};
}

Emitter::Element Emitter::Resolve(ir::Value value, const Coordinates& at) {
  const auto bound = bound_.find({value.node, value.index});
  if (bound != bound_.end()) {
    const std::string text = bound->second(at);
    const bool lane =
        site_.width > 1 && (Mentions(text, site_.vector.ToString()) ||
                            std::any_of(at.begin(), at.end(),
                                        [&](const Index& index) { return DependsOnLane(index); }));
    return {text, lane};
  }
  const Key key{value.node, value.index, at, ConditionText()};
  const auto known = memo_.find(key);
  if (known != memo_.end()) return known->second;
  const Element element = Compute(value, at);
  memo_[key] = element;
  return element;
}

Emitter::Element Emitter::Compute(ir::Value value, const Coordinates& at) {
  const ir::Node& node = *value.node;
  switch (node.op()) {
    case Op::kInput:
      return LoadInput(input_index_.at(&node), at);
    case Op::kConstant:
    case Op::kIota:
    case Op::kSizeOf:
    case Op::kGradientSeed:
      return ComputeConstant(value, at);
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kBroadcast:
    case Op::kSlice:
    case Op::kStopGradient:
      return ComputeView(value, at);
    case Op::kPad:
      return ComputePad(value, at);
    case Op::kConcat:
      return ComputeConcat(value, at);
    case Op::kGather:
      return ComputeGather(value, at);
    case Op::kDropout:
    case Op::kRandomUniform:
    case Op::kRandomNormal:
      return ComputeRandom(value, at);
    case Op::kUpdateLossScale:
    case Op::kLearningRate:
      return ComputeScalar(value);
    case Op::kReduceSum:
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceMin:
      return ComputeReductionOfOne(value, at);
    case Op::kAllFinite:
      return ComputeTestOfOne(value);
    default:
      return ComputeExpression(value, at);
  }
}

Emitter::Element Emitter::Statement(const ir::Node& node, const std::string& type,
                                    const std::string& expression, bool lane) {
  const std::string name = NewName('t');
  AddLine(lane ? loop_ : before_, absl::StrCat("const ", type, " ", name, " = ", expression, ";"),
          &node);
  const double share = lane || site_.width == 1 ? 1.0 : 1.0 / site_.width;
  llvm::SmallVector<ir::Type, 4> operands;
  for (ir::Value operand : node.operands()) operands.push_back(operand.type());
  const double elements = static_cast<double>(std::max<int64_t>(1, node.type().elements()));
  flops_ += share * node.def().cost(operands, node.types(), node.attrs()).flops / elements;
  mufu_ += share * MufuOf(node);
  return {name, lane};
}

Emitter::Element Emitter::ComputeExpression(ir::Value value, const Coordinates& at) {
  const ir::Node& node = *value.node;
  const OpExpression* row = FindOpExpression(node.op());
  // A number or a test of it is that of the stored value, as is what a user casts to an integer.
  const bool casts_to_integer = node.op() == Op::kCast && !IsFloat(value.type().dtype);
  const bool observes = (row != nullptr && row->observes) || casts_to_integer;
  std::vector<std::string> operands;
  bool lane = false;
  for (ir::Value operand : node.operands()) {
    if (operand.type().shape != value.type().shape) return Fail(node);
    const Element element = observes ? Stored(operand, at) : Resolve(operand, at);
    operands.push_back(element.text);
    lane = lane || element.lane;
  }
  const std::string expression = ExpressionOf(node, operands, IsFast(value));
  if (expression.empty()) return Fail(node);
  const std::string rounded = Rounded(value, expression);
  // A cast that changes nothing is the operand.
  if (operands.size() == 1 && rounded == operands[0]) return {operands[0], lane};
  return Statement(node, ComputeType(value.type().dtype), rounded, lane);
}

Emitter::Element Emitter::ComputeConstant(ir::Value value, const Coordinates& at) {
  const ir::Node& node = *value.node;
  const DType dtype = value.type().dtype;
  const auto literal = [&](const ir::Literal& from, size_t i) {
    if (IsFloat(dtype)) return FloatLiteral(from.AsDouble(i), dtype);
    const auto* ints = std::get_if<std::vector<int64_t>>(&from.values);
    return IntLiteral(
        ints != nullptr ? (*ints)[from.is_splat() ? 0 : i] : static_cast<int64_t>(from.AsDouble(i)),
        dtype);
  };
  if (node.op() == Op::kGradientSeed) return {FloatLiteral(1.0, dtype), false};
  if (node.op() == Op::kSizeOf) {
    return {IntLiteral(node.attrs_as<ir::SizeOfAttrs>().size.size(), dtype), false};
  }
  if (node.op() == Op::kIota) {
    const Index& index = at[static_cast<size_t>(node.attrs_as<ir::IotaAttrs>().axis)];
    const std::string text =
        absl::StrCat("static_cast<", dtype == DType::kU8 ? "unsigned char" : ComputeType(dtype),
                     ">(", index.ToString(), ")");
    return Statement(node, ComputeType(dtype), Rounded(value, text), DependsOnLane(index));
  }
  const ir::Literal& from = node.attrs_as<ir::ConstantAttrs>().value;
  if (from.is_splat()) return {literal(from, 0), false};
  const Index position = Linearise(at, SizesOf(value.type()));
  if (auto number = position.constant())
    return {literal(from, static_cast<size_t>(*number)), false};
  auto [name, inserted] = table_names_.try_emplace(&node, "");
  if (inserted) {
    name->second = NewName('c');
    std::vector<std::string> values;
    for (size_t i = 0; i < from.size(); ++i) values.push_back(literal(from, i));
    tables_.push_back(absl::StrCat("static __device__ const ", ComputeType(dtype), " ",
                                   name->second, "[", values.size(), "] = {",
                                   absl::StrJoin(values, ", "), "};\n"));
  }
  const std::string condition = ConditionText();
  std::string text = absl::StrCat(name->second, "[", position.ToString(), "]");
  if (!condition.empty())
    text = absl::StrCat("(", condition, " ? ", text, " : ", ZeroLiteral(dtype), ")");
  return {text, DependsOnLane(position) || ConditionsDependOnLane()};
}

// ---- Views

Emitter::Element Emitter::ComputeView(ir::Value value, const Coordinates& at) {
  const ir::Node& node = *value.node;
  const ir::Value operand = node.operand(0);
  const auto sizes = SizesOf(operand.type());
  Coordinates from(sizes.size(), Index(0));
  switch (node.op()) {
    case Op::kReshape:
      from = Delinearise(Linearise(at, SizesOf(value.type())), sizes);
      break;
    case Op::kTranspose: {
      const ir::Ints& perm = node.attrs_as<ir::TransposeAttrs>().perm;
      for (size_t i = 0; i < perm.size(); ++i) from[static_cast<size_t>(perm[i])] = at[i];
      break;
    }
    case Op::kBroadcast: {
      const ir::Ints& dims = node.attrs_as<ir::BroadcastAttrs>().dims;
      for (size_t i = 0; i < dims.size(); ++i) {
        if (sizes[i] != 1) from[i] = at[static_cast<size_t>(dims[i])];
      }
      break;
    }
    case Op::kSlice: {
      const auto& slice = node.attrs_as<ir::SliceAttrs>();
      for (size_t i = 0; i < sizes.size(); ++i) {
        const int64_t stride = slice.strides.empty() ? 1 : slice.strides[i];
        from[i] = at[i] * stride + Index(slice.starts[i]);
      }
      break;
    }
    default:
      from = at;
  }
  return Resolve(operand, from);
}

Emitter::Element Emitter::ComputePad(ir::Value value, const Coordinates& at) {
  const ir::Node& node = *value.node;
  const auto& pad = node.attrs_as<ir::PadAttrs>();
  const ir::Value operand = node.operand(0);
  const DType dtype = value.type().dtype;
  const auto sizes = SizesOf(operand.type());
  const std::string padding = IsFloat(dtype) ? FloatLiteral(pad.value, dtype)
                                             : IntLiteral(static_cast<int64_t>(pad.value), dtype);
  Coordinates from;
  std::vector<Condition> conditions;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t step = pad.interior.empty() ? 1 : pad.interior[i] + 1;
    const Index inside = at[i] - pad.low[i];
    from.push_back(inside / step);
    llvm::SmallVector<Bounds, 2> all;
    all.push_back({inside, 0, (sizes[i] - 1) * step + 1});
    if (step > 1) all.push_back({inside % step, 0, 1});
    for (const Bounds& bounds : all) {
      if (bounds.high <= bounds.low || bounds.index.max() < bounds.low ||
          bounds.index.min() >= bounds.high) {
        return {padding, false};
      }
      if (!bounds.always()) conditions.push_back(MakeCondition(bounds));
    }
  }
  if (conditions.empty()) return Resolve(operand, from);
  bool lane = false;
  std::vector<std::string> texts;
  for (const Condition& condition : conditions) {
    conditions_.push_back(condition);
    texts.push_back(condition.text);
    lane = lane || condition.lane;
  }
  const Element inner = Resolve(operand, from);
  conditions_.resize(conditions_.size() - conditions.size());
  return Statement(node, ComputeType(dtype),
                   absl::StrCat(absl::StrJoin(texts, " && "), " ? ", inner.text, " : ", padding),
                   lane || inner.lane);
}

Emitter::Element Emitter::ComputeConcat(ir::Value value, const Coordinates& at) {
  const ir::Node& node = *value.node;
  const auto axis = static_cast<size_t>(node.attrs_as<ir::AxisAttrs>().axis);
  std::vector<std::pair<Bounds, ir::Value>> pieces;
  int64_t start = 0;
  for (ir::Value operand : node.operands()) {
    const int64_t size = operand.type().shape[axis].size();
    const Bounds bounds{at[axis], start, start + size};
    if (size > 0 && at[axis].max() >= bounds.low && at[axis].min() < bounds.high) {
      pieces.push_back({bounds, operand});
    }
    start += size;
  }
  std::string text;
  bool lane = false;
  for (const auto& [bounds, operand] : pieces) {
    Coordinates from = at;
    from[axis] = at[axis] - bounds.low;
    const bool is_last = &operand == &pieces.back().second;
    const Condition own = MakeCondition(bounds);
    if (!own.text.empty()) conditions_.push_back(own);
    const Element inner = Resolve(operand, from);
    if (!own.text.empty()) conditions_.pop_back();
    if (pieces.size() == 1) return inner;
    lane = lane || own.lane || inner.lane;
    if (is_last) {
      absl::StrAppend(&text, inner.text);
    } else {
      // Elements before this piece have been dealt with.
      const Condition below =
          MakeCondition({at[axis], std::min<int64_t>(0, at[axis].min()), bounds.high});
      absl::StrAppend(&text, below.text, " ? ", inner.text, " : ");
    }
  }
  return Statement(node, ComputeType(value.type().dtype), text, lane);
}

// ---- Reductions over single elements, in kernels of scalars

Emitter::Element Emitter::ComputeReductionOfOne(ir::Value value, const Coordinates& at) {
  const ir::Node& node = *value.node;
  const auto& reduce = node.attrs_as<ir::ReduceAttrs>();
  const ir::Value operand = node.operand(0);
  Coordinates from(static_cast<size_t>(operand.type().rank()), Index(0));
  size_t next = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool reduced = std::binary_search(reduce.axes.begin(), reduce.axes.end(), i);
    if (reduced && operand.type().shape[i] != ir::Dim(1)) return Fail(node);
    if (!reduced) from[i] = at[next];
    if (!reduced || reduce.keep_dims) ++next;
  }
  const Element element = Resolve(operand, from);
  const std::string type = ComputeType(value.type().dtype);
  const std::string text = type == ComputeType(operand.type().dtype)
                               ? element.text
                               : absl::StrCat("static_cast<", type, ">(", element.text, ")");
  return Statement(node, type, Rounded(value, text), element.lane);
}

Emitter::Element Emitter::ComputeTestOfOne(ir::Value value) {
  const ir::Node& node = *value.node;
  std::vector<std::string> tests;
  for (ir::Value operand : node.operands()) {
    if (operand.type().elements() != 1) return Fail(node);
    const Coordinates at(static_cast<size_t>(operand.type().rank()), Index(0));
    const std::string text = Stored(operand, at).text;
    tests.push_back(operand.type().dtype == DType::kBool ? text
                                                         : absl::StrCat("IsFinite(", text, ")"));
  }
  return Statement(node, "bool", absl::StrJoin(tests, " && "), false);
}

// ---- Rows by index

Emitter::Element Emitter::ComputeGather(ir::Value value, const Coordinates& at) {
  const ir::Node& node = *value.node;
  const ir::Value table = node.operand(0);
  const ir::Value indices = node.operand(1);
  const auto split = static_cast<size_t>(indices.type().rank());
  const int64_t rows = table.type().shape[0].size();
  const Coordinates index_at(at.begin(), at.begin() + static_cast<ptrdiff_t>(split));
  const Element index = Resolve(indices, index_at);
  std::string wanted = ConditionText();
  if (!site_.lane_guard.empty() && index.lane) {
    wanted = wanted.empty() ? site_.lane_guard : absl::StrCat(wanted, " && ", site_.lane_guard);
  }
  // The same index, asked for by other elements of the row, is one variable.
  const Key key{&node, -1, index_at, ConditionText()};
  auto known = memo_.find(key);
  if (known == memo_.end()) {
    const std::string name = NewName('g');
    std::vector<Line>& list = index.lane ? loop_ : before_;
    const std::string check = IndexCheckExpression(
        index.text, rows, wanted.empty() ? "true" : wanted, AddLabel(LabelOf(node)));
    AddLine(list, absl::StrCat("const bool ", name, "_ok = ", check, ";"), &node);
    AddLine(list,
            absl::StrCat("const ", index_type_, " ", name, " = ", name, "_ok ? static_cast<",
                         index_type_, ">(", index.text, ") : 0;"),
            &node);
    runtime_.insert(name);
    if (index.lane) lane_runtime_.insert(name);
    known = memo_.emplace(key, Element{name, index.lane}).first;
  }
  const std::string name = known->second.text;
  Coordinates from = {Index::Variable(name, rows)};
  from.append(at.begin() + static_cast<ptrdiff_t>(split), at.end());
  conditions_.push_back({absl::StrCat(name, "_ok"), index.lane});
  const Element row = Resolve(table, from);
  conditions_.pop_back();
  if (table.node->op() == Op::kInput && !bound_.contains({table.node, table.index})) return row;
  return Statement(node, ComputeType(value.type().dtype),
                   absl::StrCat(name, "_ok ? ", row.text, " : ", ZeroLiteral(value.type().dtype)),
                   row.lane || index.lane);
}

int Emitter::AddLabel(std::string text) {
  labels_.push_back(std::move(text));
  return static_cast<int>(labels_.size());
}

std::string Emitter::IndexCheckExpression(const std::string& index, int64_t limit,
                                          const std::string& wanted, int label) {
  errors_ = true;
  return absl::StrCat("CheckIndex(", index, ", ", IntLiteral(limit, DType::kI64), ", ", wanted,
                      ", errors, step, ", label, ")");
}

// ---- Random numbers

int Emitter::StreamOf(const ir::Node& node) {
  const auto found = std::find(streams_.begin(), streams_.end(), &node);
  if (found != streams_.end()) return static_cast<int>(found - streams_.begin());
  streams_.push_back(&node);
  return static_cast<int>(streams_.size()) - 1;
}

Emitter::Element Emitter::RandomWordAt(const ir::Node& node, const Coordinates& at) {
  const std::string stream = absl::StrCat("stream", StreamOf(node));
  const Index position = Linearise(at, SizesOf(node.type()));
  const bool lane = DependsOnLane(position);
  const auto split = lane ? position.SplitBy(site_.vector) : std::nullopt;
  if (lane && site_.width % 4 == 0 && split && split->stride == 1 && !DependsOnLane(split->base) &&
      split->base.divisor() % 4 == 0) {
    const Key key{&node, -2, {split->base}, ""};
    auto known = memo_.find(key);
    if (known == memo_.end()) {
      const std::string name = NewName('r');
      AddLine(before_,
              absl::StrFormat("const Vec<unsigned int, %d> %s = RandomWords<%d>(%s, %s);",
                              site_.width, name, site_.width, stream, split->base.ToString()),
              &node);
      known = memo_.emplace(key, Element{name, true}).first;
    }
    return {absl::StrFormat("%s[%s]", known->second.text, site_.vector.ToString()), true};
  }
  return {absl::StrFormat("RandomWord(%s, %s)", stream, position.ToString()), lane};
}

Emitter::Element Emitter::ComputeRandom(ir::Value value, const Coordinates& at) {
  const ir::Node& node = *value.node;
  const DType dtype = value.type().dtype;
  const std::string type = ComputeType(dtype);
  const auto drawn = [&](const Element& number) {
    const std::string text =
        type == "float" ? number.text : absl::StrCat("static_cast<", type, ">(", number.text, ")");
    return Statement(node, type, Rounded(value, text), number.lane);
  };
  if (node.op() == Op::kRandomNormal) {
    const auto& normal = node.attrs_as<ir::NormalAttrs>();
    const Index position = Linearise(at, SizesOf(node.type()));
    const std::string stream = absl::StrCat("stream", StreamOf(node));
    return drawn({absl::StrFormat("RandomNormal(%s, %s, %s, %s)", stream, position.ToString(),
                                  FloatLiteral(normal.mean, DType::kF32),
                                  FloatLiteral(normal.stddev, DType::kF32)),
                  DependsOnLane(position)});
  }
  if (node.op() == Op::kRandomUniform) {
    const Element word = RandomWordAt(node, at);
    const auto& uniform = node.attrs_as<ir::UniformAttrs>();
    return drawn({absl::StrFormat("UniformBetween(%s, %s, %s)", word.text,
                                  FloatLiteral(uniform.low, DType::kF32),
                                  FloatLiteral(uniform.high, DType::kF32)),
                  word.lane});
  }
  const double rate = node.attrs_as<ir::DropoutAttrs>().rate;
  if (value.index == 1) {
    const Element word = RandomWordAt(node, at);
    const auto threshold = static_cast<uint32_t>(rate * 0x1p32);
    return Statement(node, "bool", absl::StrFormat("%s >= %uu", word.text, threshold), word.lane);
  }
  const Element kept = Resolve({value.node, 1}, at);
  const Element x = Resolve(node.operand(0), at);
  const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const std::string text =
      absl::StrFormat("%s ? %s * %s : %s", kept.text, x.text,
                      FloatLiteral(1.0 / (1.0 - rate), wide), ZeroLiteral(dtype));
  return Statement(node, type, Rounded(value, text), kept.lane || x.lane);
}

// ---- Scalars of a step

Emitter::Element Emitter::ComputeScalar(ir::Value value) {
  const ir::Node& node = *value.node;
  const auto number = [](double x) { return FloatLiteral(x, DType::kF64); };
  std::vector<std::string> operands;
  for (ir::Value operand : node.operands()) operands.push_back(Resolve(operand, {}).text);
  if (node.op() == Op::kUpdateLossScale) {
    const auto& attrs = node.attrs_as<ir::LossScaleAttrs>();
    const Key key{&node, -1, {}, ""};
    auto known = memo_.find(key);
    if (known == memo_.end()) {
      const Element both =
          Statement(node, "LossScale",
                    absl::StrCat("UpdateLossScale(", absl::StrJoin(operands, ", "), ", ",
                                 number(attrs.growth_factor), ", ", number(attrs.backoff_factor),
                                 ", ", attrs.growth_interval, "LL, ", number(attrs.min_scale), ", ",
                                 number(attrs.max_scale), ")"),
                    false);
      known = memo_.emplace(key, both).first;
    }
    return {known->second.text + (value.index == 0 ? ".scale" : ".tracker"), false};
  }
  const auto& rate = node.attrs_as<ir::ScheduleAttrs>();
  const std::string text = rate.schedule == "constant"
                               ? absl::StrFormat("ConstantRate(%s, %s, %dLL)", operands[0],
                                                 number(rate.base), rate.warmup_steps)
                               : absl::StrFormat("%sRate(%s, %s, %s, %dLL, %dLL)",
                                                 rate.schedule == "linear" ? "Linear" : "Cosine",
                                                 operands[0], number(rate.base), number(rate.final),
                                                 rate.warmup_steps, rate.total_steps);
  return Statement(node, "float", text, false);
}

}  // namespace duotone::codegen::cuda
