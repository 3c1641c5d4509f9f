#include "passes/colour.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "llvm/ADT/DenseSet.h"
#include "passes/colour_types.h"
#include "passes/paint.h"
#include "passes/precision_overrides.h"
#include "passes/representable.h"

namespace duotone::passes {
namespace {

using ir::Node;
using ir::Region;
using ir::Tone;
using ir::TorchCategory;
using ir::Value;

constexpr std::string_view kOriginPrefix = "autocast:";

constexpr RuleInfo kRules[] = {
    {Rule::kAllow, "allow", "allow op: worth 16 bits and safe in them"},
    {Rule::kBetween, "between", "infer or clear op between allow-listed ops"},
    {Rule::kFollow, "follow", "infer op that reads 16-bit values"},
    {Rule::kClear, "clear", "clear op next to a 16-bit one"},
    {Rule::kDeny, "deny", "deny op: unsafe in 16 bits"},
    {Rule::kDownstream, "downstream", "infer or clear op downstream of a deny op"},
    {Rule::kConstant, "constant", "a constant that it reads does not fit the 16-bit type"},
    {Rule::kAttribute, "attribute", "an attribute does not fit the 16-bit type"},
    {Rule::kAlone, "alone", "infer or clear op without a 16-bit neighbour"},
    {Rule::kNone, "none", "no op of the graph is allow-listed"},
    {Rule::kMixed, "mixed", "f16 and bf16 operands promote to fp32"},
    {Rule::kNoLowForm, "no-low-form", "the op does not take 16-bit operands here"},
    {Rule::kOff, "off", "in a region with autocast off"},
    {Rule::kUser, "user", "the user's own 16-bit types"},
    {Rule::kFixed, "fixed", "autocast never touches the op"},
    {Rule::kNotFloat, "not-float", "no operand that may be narrowed"},
    {Rule::kTorchLower, "torch-lower", "PyTorch's lower_precision_fp list"},
    {Rule::kTorchFp32, "torch-fp32", "PyTorch's fp32 list"},
    {Rule::kTorchFp32Out, "torch-fp32-out",
     "PyTorch's fp32_set_opt_dtype list: operands as they are, f32 result"},
    {Rule::kTorchPromote, "torch-promote", "PyTorch's promote list: the widest operand decides"},
    {Rule::kTorchNative, "torch-native", "in no list of PyTorch's: the operands decide"},
    {Rule::kOutput, "output", "read where the type from before autocast is kept"},
};

bool IsAutocastCast(const Node& node) {
  return node.op() == ir::Op::kCast && absl::StartsWith(node.info().dtype_origin, "autocast:");
}

Tone TableTone(const Node& node, DType low) {
  const ir::Precision& precision = node.def().precision;
  return low == DType::kF16 ? precision.f16 : precision.bf16;
}

// Bounds and fill values among the attributes, which must survive in the 16-bit type.
std::string AttributeMisfit(const Node& node, DType low) {
  auto check = [&](std::string_view name, double number) -> std::string {
    const std::string misfit = MisfitOf(ir::Literal::Float(number), low);
    return misfit.empty() ? "" : absl::StrFormat("%s: %s", name, misfit);
  };
  if (const auto* clamp = std::get_if<ir::ClampAttrs>(&node.attrs())) {
    const std::string misfit = check("min", clamp->min);
    return misfit.empty() ? check("max", clamp->max) : misfit;
  }
  if (const auto* pad = std::get_if<ir::PadAttrs>(&node.attrs())) return check("value", pad->value);
  return "";
}

class Colourer {
 public:
  Colourer(const ir::Graph& graph, const AutocastOptions& options, PrecisionOverrides overrides)
      : graph_(graph), options_(options), overrides_(std::move(overrides)) {
    colouring_.was_coloured = IsColoured(graph);
    colouring_.override_used.resize(options.overrides.size());
    for (const auto& node : graph.nodes()) {
      index_[node.get()] = static_cast<int>(nodes_.size());
      nodes_.push_back(node.get());
    }
    for (const ir::Output& output : graph.outputs()) roots_.insert(BehindCasts(output.value).node);
    for (const ir::Update& update : graph.updates()) roots_.insert(BehindCasts(update.next).node);
  }

  absl::StatusOr<Colouring> Run() {
    vertices_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) DUOTONE_RETURN_IF_ERROR(Classify(i));
    if (options_.policy == CastPolicy::kOptimal) {
      CheckConstants();
      Paint(vertices_);
      for (size_t i = 0; i < nodes_.size(); ++i) TakeOver(i);
      FindCauses();
    }
    if (!colouring_.was_coloured) {
      DUOTONE_RETURN_IF_ERROR(AssignTypes(graph_, colouring_));
    }
    return std::move(colouring_);
  }

 private:
  NodeColour& ColourOf(size_t i) { return colouring_.nodes[nodes_[i]]; }

  // Settles the nodes that take no part; the others become vertices for the painter, or get
  // PyTorch's rule.
  absl::Status Classify(size_t i) {
    const Node& node = *nodes_[i];
    NodeColour& colour = ColourOf(i);
    colour.low_dtype = node.info().region == Region::kF16    ? DType::kF16
                       : node.info().region == Region::kBF16 ? DType::kBF16
                                                             : *options_.dtype;
    colour.tone = TableTone(node, colour.low_dtype);
    vertices_[i].name = node.name();
    vertices_[i].low_dtype = colour.low_dtype;
    // In a graph that has been through autocast, backward nodes have their forward nodes' types.
    const bool inherits = colouring_.was_coloured && !node.info().forward.empty();
    if (colour.tone == Tone::kFixed || inherits) return absl::OkStatus();
    bool has_f32 = false;
    bool has_low = false;
    for (int k = 0; k < node.operand_count(); ++k) {
      if (!IsCastable(node, k)) continue;
      (IsLow(OriginalDType(node.operand(k))) ? has_low : has_f32) = true;
    }
    if (!has_f32 && !has_low) {
      colour.rule = Rule::kNotFloat;
      return absl::OkStatus();
    }
    colour.override_index = overrides_.IndexFor(node);
    if (colour.override_index >= 0) {
      colour.tone = options_.overrides[colour.override_index].tone;
      colouring_.override_used[colour.override_index] = true;
    }
    if (options_.policy == CastPolicy::kPyTorch) return ClassifyTorch(node, colour);
    if (has_low) {
      colour.rule = Rule::kUser;
      return absl::OkStatus();
    }
    MakeVertex(i);
    return absl::OkStatus();
  }

  absl::Status ClassifyTorch(const Node& node, NodeColour& colour) {
    if (node.info().region == Region::kOff) {
      colour.rule = Rule::kOff;
      return absl::OkStatus();
    }
    const ir::Precision& precision = node.def().precision;
    TorchCategory category =
        options_.torch_device == TorchDevice::kCuda ? precision.torch_cuda : precision.torch_cpu;
    if (colour.override_index >= 0) {
      category = colour.tone == Tone::kAllow  ? TorchCategory::kLower
                 : colour.tone == Tone::kDeny ? TorchCategory::kFp32
                                              : TorchCategory::kUnlisted;
    }
    switch (category) {
      case TorchCategory::kLower:
        colour.rule = Rule::kTorchLower;
        colouring_.has_allowed = true;
        break;
      case TorchCategory::kFp32:
        colour.rule = Rule::kTorchFp32;
        break;
      case TorchCategory::kFp32SetOptDType:
        colour.rule = Rule::kTorchFp32Out;
        break;
      case TorchCategory::kPromote:
        colour.rule = Rule::kTorchPromote;
        break;
      case TorchCategory::kUnlisted:
        colour.rule = Rule::kTorchNative;
        break;
      case TorchCategory::kBanned:
        return InvalidArgument(
            "autocast: %s is unsafe in 16 bits, and its gradient may not fit them either; use the "
            "form that takes logits %s",
            node.def().name, node.Place());
      case TorchCategory::kUnset:
        return Internal("autocast: %s has no PyTorch category", node.def().name);
    }
    return absl::OkStatus();
  }

  void MakeVertex(size_t i) {
    const Node& node = *nodes_[i];
    NodeColour& colour = ColourOf(i);
    PaintVertex& vertex = vertices_[i];
    vertex.tone = colour.tone;
    const uint32_t low_results = LowResults(node, colour.low_dtype);
    low_results_.insert({&node, low_results});
    const bool off = node.info().region == Region::kOff;
    vertex.can_be_low = !off && takes_low_;
    // Rules that hold whatever the painter finds; kAlone leaves it to the painter.
    colour.rule = off ? Rule::kOff : takes_low_ ? Rule::kAlone : Rule::kNoLowForm;
    for (int k = 0; k < node.operand_count(); ++k) {
      if (!IsCastable(node, k)) continue;
      const Value source = BehindCasts(node.operand(k));
      auto from = index_.find(source.node);
      if (from == index_.end()) continue;
      const uint32_t low = low_results_.lookup(source.node);
      vertex.reads.push_back({from->second, source.index < 32 && ((low >> source.index) & 1) != 0});
    }
    const std::string misfit = AttributeMisfit(node, colour.low_dtype);
    if (misfit.empty() || !vertex.can_be_low) return;
    Forbid(i, Rule::kAttribute, misfit);
  }

  // Which results are 16-bit if the castable operands are; sets takes_low_ to whether the op takes
  // them at all.
  uint32_t LowResults(const Node& node, DType low) {
    llvm::SmallVector<ir::Type, 4> operands;
    for (int k = 0; k < node.operand_count(); ++k) {
      const Value operand = node.operand(k);
      operands.push_back(
          operand.type().WithDType(IsCastable(node, k) ? low : OriginalDType(operand)));
    }
    ir::Attrs attrs = node.attrs();
    absl::StatusOr<ir::Types> types = ir::InferTypes(node.op(), operands, attrs);
    takes_low_ = types.ok();
    uint32_t results = 0;
    for (size_t r = 0; takes_low_ && r < std::min<size_t>(types->size(), 32); ++r) {
      if (IsLow((*types)[r].dtype)) results |= 1u << r;
    }
    return results;
  }

  // The node may not be low, and what follows it is treated as downstream of a deny op.
  void Forbid(size_t i, Rule rule, std::string detail) {
    vertices_[i].tone = Tone::kDeny;
    vertices_[i].can_be_low = false;
    ColourOf(i).rule = rule;
    ColourOf(i).detail = std::move(detail);
  }

  // Constants that a 16-bit type cannot hold. A clear node over nothing but such a constant (a
  // broadcast) carries it on. What computes with it is forbidden to be low. The exception is a
  // value too large that is only chosen or compared (select, max): a mask's sentinel, which is
  // clamped to the largest finite number instead.
  void CheckConstants() {
    llvm::DenseMap<const Node*, const Node*> constants;  // a node to the constant it carries
    std::vector<size_t> carriers;
    llvm::DenseMap<std::pair<const Node*, int>, Fit> fits;
    auto fit_in = [&](const Node* constant, DType low) {
      auto [it, inserted] = fits.insert({{constant, static_cast<int>(low)}, Fit::kFits});
      if (inserted) it->second = FitIn(constant->attrs_as<ir::ConstantAttrs>().value, low);
      return it->second;
    };
    std::vector<bool> clamps(nodes_.size());
    std::vector<llvm::SmallVector<size_t, 4>> readers(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = *nodes_[i];
      if (node.op() == ir::Op::kConstant && IsFloat(node.type().dtype)) constants[&node] = &node;
      int castable = 0;
      const Node* carried = nullptr;
      Fit worst = Fit::kFits;
      for (int k = 0; k < node.operand_count(); ++k) {
        const Node* from = BehindCasts(node.operand(k)).node;
        auto position = index_.find(from);
        if (position != index_.end()) readers[position->second].push_back(i);
        if (!IsCastable(node, k)) continue;
        ++castable;
        const Node* constant = constants.lookup(from);
        if (constant == nullptr || !vertices_[i].can_be_low) continue;
        const Fit fit = fit_in(constant, vertices_[i].low_dtype);
        if (carried == nullptr || fit > worst) carried = constant;
        worst = std::max(worst, fit);
      }
      if (worst == Fit::kFits) {
        // Another 16-bit type further on may be the one that it does not fit.
        if (carried != nullptr && castable == 1 && vertices_[i].tone == Tone::kClear) {
          constants[&node] = carried;
        }
        continue;
      }
      const std::string detail = absl::StrFormat(
          "%%%s: %s", carried->name(),
          MisfitOf(carried->attrs_as<ir::ConstantAttrs>().value, vertices_[i].low_dtype));
      const bool is_clear = vertices_[i].tone == Tone::kClear;
      if (is_clear && castable == 1) {
        constants[&node] = carried;
        carriers.push_back(i);
        ColourOf(i).detail = detail;
        clamps[i] = worst == Fit::kOverflows;
      } else if (is_clear && worst == Fit::kOverflows) {
        clamps[i] = true;
      } else {
        Forbid(i, Rule::kConstant, detail);
      }
    }
    for (auto it = carriers.rbegin(); it != carriers.rend(); ++it) {
      const size_t i = *it;
      bool clampable = clamps[i] && !roots_.contains(nodes_[i]);
      for (size_t reader : readers[i]) {
        if (IsAutocastCast(*nodes_[reader])) continue;
        clampable &= clamps[reader] && vertices_[reader].can_be_low &&
                     vertices_[reader].low_dtype == vertices_[i].low_dtype;
      }
      vertices_[i].keeps_readers_low = clampable;
      if (!clampable) Forbid(i, Rule::kConstant, ColourOf(i).detail);
    }
  }

  // The painter's finding becomes the node's rule, unless something stronger has settled it.
  void TakeOver(size_t i) {
    const PaintVertex& vertex = vertices_[i];
    NodeColour& colour = ColourOf(i);
    if (vertex.via >= 0) colour.via = nodes_[vertex.via];
    if (vertex.towards >= 0) colour.towards = nodes_[vertex.towards];
    colouring_.has_allowed |= vertex.rule == PaintRule::kAllow;
    if (vertex.rule == PaintRule::kUntouched) return;
    if (vertex.rule == PaintRule::kNone && colour.rule != Rule::kOff) {
      colour.rule = Rule::kNone;
      return;
    }
    if (colour.rule != Rule::kAlone) return;
    switch (vertex.rule) {
      case PaintRule::kAllow:
        colour.rule = Rule::kAllow;
        break;
      case PaintRule::kDeny:
        colour.rule = Rule::kDeny;
        break;
      case PaintRule::kDownstream:
        colour.rule = Rule::kDownstream;
        break;
      case PaintRule::kBetween:
        colour.rule = Rule::kBetween;
        break;
      case PaintRule::kFollow:
        colour.rule = Rule::kFollow;
        break;
      case PaintRule::kClear:
        colour.rule = Rule::kClear;
        break;
      case PaintRule::kMixed:
        colour.rule = Rule::kMixed;
        break;
      case PaintRule::kReaders:
        colour.rule = Rule::kConstant;
        break;
      case PaintRule::kUntouched:
      case PaintRule::kNone:
      case PaintRule::kAlone:
        break;
    }
  }

  // Follows `via` and `towards` to their ends, each step once.
  void FindCauses() {
    std::vector<bool> done(nodes_.size());
    for (size_t start = 0; start < nodes_.size(); ++start) {
      std::vector<size_t> chain;
      for (int i = static_cast<int>(start); i >= 0 && !done[i]; i = vertices_[i].via) {
        done[i] = true;
        chain.push_back(i);
      }
      for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
        NodeColour& colour = ColourOf(*it);
        if (colour.via == nullptr) continue;
        const NodeColour& next = ColourOf(vertices_[*it].via);
        colour.cause = next.cause == nullptr ? colour.via : next.cause;
        colour.distance = next.distance + 1;
      }
    }
    for (size_t i = nodes_.size(); i-- > 0;) {  // `towards` leads to later nodes
      NodeColour& colour = ColourOf(i);
      if (colour.towards == nullptr) continue;
      const NodeColour& next = ColourOf(vertices_[i].towards);
      colour.second = next.second == nullptr ? colour.towards : next.second;
    }
  }

  const ir::Graph& graph_;
  const AutocastOptions& options_;
  PrecisionOverrides overrides_;
  Colouring colouring_;
  std::vector<const Node*> nodes_;
  llvm::DenseMap<const Node*, int> index_;
  llvm::DenseSet<const Node*> roots_;
  std::vector<PaintVertex> vertices_;
  llvm::DenseMap<const Node*, uint32_t> low_results_;
  bool takes_low_ = false;
};

// " via %a, %b", or nothing if the cause is the next step.
std::string ViaText(llvm::ArrayRef<const Node*> path, int distance) {
  std::string text;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    text += absl::StrFormat("%s%%%s", i == 0 ? " via " : ", ", path[i]->name());
  }
  const int left_out = distance - static_cast<int>(path.size());
  if (left_out > 0) text += absl::StrFormat(" and %d more", left_out);
  return text;
}

std::string CauseText(const Node* node) {
  return absl::StrFormat("%s (%%%s)", node->def().name, node->name());
}

// What is said about a node of the rule; for the painter's rules with the nodes that caused it.
std::string Sentence(const Colouring& colouring, const AutocastOptions& options, const Node* node,
                     const NodeColour& colour) {
  const std::vector<const Node*> path = PathOf(colouring, node);
  const std::string_view tone = ir::ToneName(colour.tone);
  switch (colour.rule) {
    case Rule::kAllow:
    case Rule::kDeny:
    case Rule::kTorchLower:
    case Rule::kTorchFp32:
      if (colour.override_index >= 0) {
        return absl::StrFormat(
            "%s by the user's override of %s", tone,
            PrecisionOverrides::Describe(options.overrides[colour.override_index]));
      }
      if (colour.rule == Rule::kTorchLower || colour.rule == Rule::kTorchFp32) break;
      return absl::StrFormat("%s op: %s", tone, node->def().precision.reason);
    case Rule::kBetween:
      return absl::StrFormat("%s op, between %s and %s", tone, CauseText(colour.cause),
                             CauseText(colour.second));
    case Rule::kFollow:
      return absl::StrFormat("%s op, follows %s%s", tone, CauseText(colour.cause),
                             ViaText(path, colour.distance));
    case Rule::kDownstream:
      return absl::StrFormat("%s op, downstream of %s%s", tone, CauseText(colour.cause),
                             ViaText(path, colour.distance));
    case Rule::kClear:
      return absl::StrFormat("%s op, next to %s", tone, CauseText(colour.via));
    case Rule::kConstant:
      return absl::StrFormat("constant %s", colour.detail);
    case Rule::kAttribute:
      return absl::StrFormat("attribute %s", colour.detail);
    case Rule::kAlone:
      return absl::StrFormat("%s op without a 16-bit neighbour that decides it", tone);
    case Rule::kFixed:
      return std::string(node->def().precision.reason);
    default:
      break;
  }
  return std::string(AllRules()[static_cast<size_t>(colour.rule)].doc);
}

}  // namespace

llvm::ArrayRef<RuleInfo> AllRules() { return kRules; }

std::string_view RuleCode(Rule rule) { return kRules[static_cast<size_t>(rule)].code; }

std::optional<Rule> RuleFromCode(std::string_view code) {
  for (const RuleInfo& info : kRules) {
    if (info.code == code) return info.rule;
  }
  return std::nullopt;
}

std::string OriginOf(Rule rule) { return absl::StrFormat("%s%s", kOriginPrefix, RuleCode(rule)); }

std::optional<Rule> RuleOfOrigin(std::string_view dtype_origin) {
  if (dtype_origin.substr(0, kOriginPrefix.size()) != kOriginPrefix) return std::nullopt;
  return RuleFromCode(dtype_origin.substr(kOriginPrefix.size()));
}

absl::Status CheckOverrides(const AutocastOptions& options) {
  return PrecisionOverrides::Make(options).status();
}

absl::StatusOr<Colouring> Colour(const ir::Graph& graph, const AutocastOptions& options) {
  if (!options.dtype || !IsLow(*options.dtype)) {
    return InvalidArgument("autocast: the type must be f16 or bf16, not %s",
                           options.dtype ? DTypeName(*options.dtype) : "off");
  }
  DUOTONE_ASSIGN_OR_RETURN(PrecisionOverrides overrides, PrecisionOverrides::Make(options));
  return Colourer(graph, options, std::move(overrides)).Run();
}

std::vector<const ir::Node*> PathOf(const Colouring& colouring, const ir::Node* node) {
  std::vector<const Node*> path;
  auto start = colouring.nodes.find(node);
  if (start == colouring.nodes.end() || start->second.cause == nullptr) return path;
  const Node* cause = start->second.cause;
  for (const Node* step = start->second.via; step != cause && path.size() < kMaxPath;) {
    path.push_back(step);
    step = colouring.nodes.find(step)->second.via;
  }
  path.push_back(cause);
  return path;
}

std::string ReasonFor(const Colouring& colouring, const AutocastOptions& options,
                      const ir::Node* node) {
  auto it = colouring.nodes.find(node);
  if (it == colouring.nodes.end()) return "read as declared";
  const NodeColour& colour = it->second;
  const std::string sentence = Sentence(colouring, options, node, colour);
  if (ReadsLow(colour.rule) || colour.rule == Rule::kTorchLower) {
    return absl::StrFormat("%s: %s", DTypeName(colour.low_dtype), sentence);
  }
  if (ReadsF32(colour.rule) || colour.rule == Rule::kTorchFp32) {
    return absl::StrFormat("fp32: %s", sentence);
  }
  return absl::StrFormat("%s: %s", RuleCode(colour.rule), sentence);
}

bool IsColoured(const ir::Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (RuleOfOrigin(node->info().dtype_origin)) return true;
  }
  return false;
}

ir::Value BehindCasts(ir::Value value) {
  while (IsAutocastCast(*value.node)) value = value.node->operand(0);
  return value;
}

DType OriginalDType(ir::Value value) {
  value = BehindCasts(value);
  const DType dtype = value.type().dtype;
  // Autocast narrows only what was f32.
  if (IsLow(dtype) && RuleOfOrigin(value.node->info().dtype_origin)) return DType::kF32;
  return dtype;
}

bool IsCastable(const ir::Node& node, int operand) {
  if (node.def().keeps_f32.contains(operand)) return false;
  const DType dtype = OriginalDType(node.operand(operand));
  return dtype == DType::kF32 || IsLow(dtype);
}

}  // namespace duotone::passes
