#include "ir/op_def.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "llvm/ADT/StringMap.h"

namespace duotone::ir {

std::string_view ToneName(Tone tone) {
  switch (tone) {
    case Tone::kUnset:
      return "unset";
    case Tone::kAllow:
      return "allow";
    case Tone::kInfer:
      return "infer";
    case Tone::kClear:
      return "clear";
    case Tone::kDeny:
      return "deny";
    case Tone::kFixed:
      return "fixed";
  }
  return "";
}

std::string_view TorchCategoryName(TorchCategory category) {
  switch (category) {
    case TorchCategory::kUnset:
      return "unset";
    case TorchCategory::kLower:
      return "lower_precision_fp";
    case TorchCategory::kFp32:
      return "fp32";
    case TorchCategory::kFp32SetOptDType:
      return "fp32_set_opt_dtype";
    case TorchCategory::kPromote:
      return "promote";
    case TorchCategory::kBanned:
      return "banned";
    case TorchCategory::kUnlisted:
      return "unlisted";
  }
  return "";
}

std::string_view LowerName(Lower lower) {
  switch (lower) {
    case Lower::kSource:
      return "source";
    case Lower::kExpanded:
      return "expanded";
    case Lower::kElementwise:
      return "elementwise";
    case Lower::kView:
      return "view";
    case Lower::kReduce:
      return "reduce";
    case Lower::kRow:
      return "row";
    case Lower::kMatMul:
      return "matmul";
    case Lower::kOptimizer:
      return "optimizer";
    case Lower::kGather:
      return "gather";
    case Lower::kRandom:
      return "random";
    case Lower::kHost:
      return "host";
    case Lower::kFused:
      return "fused";
  }
  return "";
}

const OpDef& DefOf(Op op) { return AllOps()[static_cast<size_t>(op)]; }

std::string_view OpName(Op op) { return DefOf(op).name; }

std::optional<Op> OpFromName(std::string_view name) {
  static const auto* const kByName = [] {
    auto* map = new llvm::StringMap<Op>();
    for (const OpDef& def : AllOps()) (*map)[def.name] = def.op;
    return map;
  }();
  auto it = kByName->find(name);
  if (it == kByName->end()) return std::nullopt;
  return it->second;
}

absl::StatusOr<Types> InferTypes(Op op, llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const OpDef& def = DefOf(op);
  const int count = static_cast<int>(operands.size());
  if (count < def.operands.min || count > def.operands.max) {
    if (def.operands.min == def.operands.max) {
      return InvalidArgument("%s: takes %d operands, not %d", def.name, def.operands.min, count);
    }
    return InvalidArgument("%s: takes at least %d operands%s, not %d", def.name, def.operands.min,
                           def.operands.max == kVariadic
                               ? std::string()
                               : absl::StrFormat(" and at most %d", def.operands.max),
                           count);
  }
  absl::StatusOr<Types> types = def.infer(operands, attrs);
  DUOTONE_RETURN_IF_ERROR(types).With("%s", def.name);
  for (const Type& type : *types) {
    DUOTONE_RETURN_IF_ERROR(ElementCount(type.shape)).With("%s", def.name);
  }
  return types;
}

}  // namespace duotone::ir
