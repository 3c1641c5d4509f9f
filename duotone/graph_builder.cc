#include "duotone/graph_builder.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/status.h"
#include "duotone/internal.h"
#include "ir/initializer.h"
#include "ir/text.h"

namespace duotone {

using internal::Access;
using internal::BuilderState;
using internal::Call;

namespace {

// The value's type in the IR; null for a failed call or after Build().
const ir::Type* TypeOf(const std::shared_ptr<BuilderState>& state, int id) {
  if (state == nullptr || id < 0 || static_cast<size_t>(id) >= state->values.size()) return nullptr;
  return &state->values[id].type();
}

// Fills in what an initialiser takes from the entry's shape.
absl::StatusOr<ir::Initializer> ToInitializer(const Initializer& init, const ir::Type& type) {
  ir::Initializer result{.kind = init.kind};
  if (init.fan_in_from_shape || init.fan_out_from_shape) {
    if (type.rank() == 0) return InvalidArgument("%s needs at least one axis", init.kind);
    if (!type.is_static()) return InvalidArgument("the type %s has a named size", type.ToString());
    const int64_t last = type.shape.back().size();
    const int64_t fan_in = type.rank() == 1 ? last : type.elements() / std::max<int64_t>(last, 1);
    if (init.fan_in_from_shape) result.args.push_back({"fan_in", static_cast<double>(fan_in)});
    if (init.fan_out_from_shape) result.args.push_back({"fan_out", static_cast<double>(last)});
  }
  for (const auto& [name, value] : init.args) result.args.push_back({name, value});
  return result;
}

// "encoder/0" and "w": "encoder.0.w".
std::string ScopedName(std::string_view scope, std::string_view name) {
  if (scope.empty()) return std::string(name);
  std::string result = absl::StrFormat("%s.%s", scope, name);
  std::replace(result.begin(), result.end(), '/', '.');
  return result;
}

Value AddState(const std::shared_ptr<BuilderState>& state, ir::StateKind kind,
               std::string_view name, const TensorType& type, const Initializer& init, Loc loc) {
  const std::string full_name = state == nullptr ? "" : ScopedName(state->scope, name);
  Call call(absl::StrFormat("%s %s", ir::StateKindName(kind), full_name), loc, state);
  if (!call.ok()) return call.Failed();
  if (!internal::IsName(full_name)) {
    call.Fail("a name has letters, digits, '_' and '.' and begins with a letter or '_'");
    return call.Failed();
  }
  ir::StateEntry entry{.name = full_name,
                       .kind = kind,
                       .type = call.Get(internal::ToType(type)),
                       .loc = loc.ToString()};
  if (!call.ok()) return call.Failed();
  if (!entry.type.is_static()) {
    call.Fail("the type %s has a named size; state needs numbers", entry.type.ToString());
    return call.Failed();
  }
  entry.init = call.Get(ToInitializer(init, entry.type));
  if (!call.ok()) return call.Failed();
  if (absl::Status status = ir::CheckInitializer(entry); !status.ok()) {
    call.Fail(status);
    return call.Failed();
  }
  absl::StatusOr<const ir::StateEntry*> added = state->module->AddState(std::move(entry));
  if (!added.ok()) {
    state->Fail(loc, "", std::string(added.status().message()));
    return call.Failed();
  }
  return call.Result(state->graph->ReadState(*added));
}

// A node without operands whose type is given: constant, iota, random numbers.
template <typename Attrs>
Value AddSource(const std::shared_ptr<BuilderState>& state, ir::Op op, Attrs attrs,
                const TensorType& type, Loc loc) {
  Call call(ir::OpName(op), loc, state);
  if (!call.ok()) return call.Failed();
  attrs.result.type = call.Get(internal::ToType(type));
  return call.Result(call.Emit(op, {}, std::move(attrs)));
}

ir::Region ToRegion(AutocastRegion region) {
  switch (region) {
    case AutocastRegion::kOff:
      return ir::Region::kOff;
    case AutocastRegion::kF16:
      return ir::Region::kF16;
    case AutocastRegion::kBF16:
      return ir::Region::kBF16;
  }
  return ir::Region::kNone;
}

}  // namespace

DType Value::dtype() const {
  const ir::Type* type = TypeOf(builder_, id_);
  return type == nullptr ? DType::kF32 : type->dtype;
}

std::vector<Size> Value::shape() const {
  const ir::Type* type = TypeOf(builder_, id_);
  return type == nullptr ? std::vector<Size>() : internal::FromType(*type).shape;
}

int Value::rank() const {
  const ir::Type* type = TypeOf(builder_, id_);
  return type == nullptr ? 0 : type->rank();
}

Size Value::dim(int axis) const {
  const ir::Type* type = TypeOf(builder_, id_);
  if (type == nullptr || axis < -type->rank() || axis >= type->rank()) return Size(1);
  return Size(type->shape[axis < 0 ? axis + type->rank() : axis].ToString());
}

std::string Value::name() const {
  return TypeOf(builder_, id_) == nullptr ? "" : builder_->values[id_].name();
}

GraphBuilder::GraphBuilder(std::string_view name) : state_(std::make_shared<BuilderState>(name)) {
  if (!internal::IsName(name)) {
    state_->Fail({}, "graph builder", absl::StrFormat("'%s' is no name for a module", name));
  }
}

Value GraphBuilder::Input(std::string_view name, TensorType type, Loc loc) {
  Call call(absl::StrFormat("input %s", name), loc, state_);
  if (call.ok() && !internal::IsName(name)) {
    call.Fail("a name has letters, digits, '_' and '.' and begins with a letter or '_'");
  }
  if (!call.ok()) return call.Failed();
  ir::Type ir_type = call.Get(internal::ToType(type));
  if (!call.ok()) return call.Failed();
  absl::StatusOr<ir::Value> input =
      state_->graph->AddInput(name, std::move(ir_type), loc.ToString());
  if (!input.ok()) {
    state_->Fail(loc, "", std::string(input.status().message()));
    return call.Failed();
  }
  return call.Result(*input);
}

Value GraphBuilder::Param(std::string_view name, TensorType type, Initializer init, Loc loc) {
  return AddState(state_, ir::StateKind::kParam, name, type, init, loc);
}

Value GraphBuilder::State(std::string_view name, TensorType type, Initializer init, Loc loc) {
  return AddState(state_, ir::StateKind::kState, name, type, init, loc);
}

void GraphBuilder::Update(const Value& state, const Value& next, Loc loc) {
  Call call("update", loc, {&state, &next});
  if (!call.ok()) return;
  if (Access::State(state) != state_) return call.Fail("the values belong to another builder");
  const ir::StateEntry* entry = state_->graph->EntryOf(call.operand(0).node);
  if (entry == nullptr || entry->kind != ir::StateKind::kState) {
    return call.Fail("%%%s was not made by GraphBuilder::State", call.operand(0).name());
  }
  if (call.operand(1).type() != entry->type) {
    return call.Fail("%%%s is %s, but its next value %%%s is %s", entry->name,
                     entry->type.ToString(), call.operand(1).name(),
                     call.operand(1).type().ToString());
  }
  if (state_->graph->FindUpdate(entry) != nullptr) {
    return call.Fail("%%%s has an update already", entry->name);
  }
  state_->graph->updates().push_back({.entry = entry, .next = call.operand(1)});
}

void GraphBuilder::Output(std::string_view name, const Value& value, Loc loc) {
  Call same_builder(absl::StrFormat("output %s", name), loc, state_);
  if (Access::State(value) == nullptr) {
    return same_builder.Fail("the value is a default-constructed Value");
  }
  if (Access::State(value) != state_) {
    return same_builder.Fail("the value belongs to another builder, '%s'",
                             Access::State(value)->name);
  }
  Call call(absl::StrFormat("output %s", name), loc, {&value});
  if (!call.ok()) return;
  if (!internal::IsName(name)) {
    return call.Fail("a name has letters, digits, '_' and '.' and begins with a letter or '_'");
  }
  if (state_->graph->FindOutput(name) != nullptr) return call.Fail("the name is taken");
  state_->graph->outputs().push_back({std::string(name), call.operand(0)});
}

Value GraphBuilder::Constant(TensorType type, double number, Loc loc) {
  Call call("constant", loc, state_);
  if (!call.ok()) return call.Failed();
  const ir::Type ir_type = call.Get(internal::ToType(type));
  return call.Result(call.Number(ir_type, number, std::floor(number) == number));
}

Value GraphBuilder::Constant(TensorType type, absl::Span<const double> numbers, Loc loc) {
  Call call("constant", loc, state_);
  if (!call.ok()) return call.Failed();
  ir::ConstantAttrs attrs;
  attrs.result.type = call.Get(internal::ToType(type));
  if (!call.ok()) return call.Failed();
  if (!attrs.result.type.is_static()) {
    call.Fail("the type %s has a named size", attrs.result.type.ToString());
  } else if (attrs.result.type.elements() != static_cast<int64_t>(numbers.size())) {
    call.Fail("%s has %d elements, not %d", attrs.result.type.ToString(),
              attrs.result.type.elements(), numbers.size());
  }
  for (double number : numbers) call.CheckNumber(type.dtype, number, std::floor(number) == number);
  if (!call.ok()) return call.Failed();
  if (IsFloat(type.dtype)) {
    attrs.value.values = std::vector<double>(numbers.begin(), numbers.end());
  } else {
    attrs.value.values = std::vector<int64_t>(numbers.begin(), numbers.end());
  }
  return call.Result(call.Emit(ir::Op::kConstant, {}, std::move(attrs)));
}

Value GraphBuilder::Iota(TensorType type, int axis, Loc loc) {
  Call call("iota", loc, state_);
  if (!call.ok()) return call.Failed();
  ir::IotaAttrs attrs;
  attrs.result.type = call.Get(internal::ToType(type));
  attrs.axis = call.Axis(axis, attrs.result.type.rank());
  return call.Result(call.Emit(ir::Op::kIota, {}, std::move(attrs)));
}

Value GraphBuilder::RandomUniform(TensorType type, double low, double high, Loc loc) {
  return AddSource(state_, ir::Op::kRandomUniform, ir::UniformAttrs{.low = low, .high = high}, type,
                   loc);
}

Value GraphBuilder::RandomNormal(TensorType type, double mean, double stddev, Loc loc) {
  return AddSource(state_, ir::Op::kRandomNormal, ir::NormalAttrs{.mean = mean, .stddev = stddev},
                   type, loc);
}

absl::Status GraphBuilder::status() const {
  return state_ == nullptr ? FailedPrecondition("the builder was moved from") : state_->error;
}

std::string GraphBuilder::Text() const {
  return state_ == nullptr || state_->module == nullptr ? "" : ir::Print(*state_->module);
}

absl::StatusOr<Model> GraphBuilder::Build() && {
  DUOTONE_RETURN_IF_ERROR(status());
  if (state_->module == nullptr) {
    return FailedPrecondition("module @%s: the graph has been built already", state_->name);
  }
  if (state_->graph->outputs().empty()) {
    return InvalidArgument("module @%s: the graph has no output", state_->name);
  }
  DUOTONE_RETURN_IF_ERROR(ir::Verify(*state_->module));
  state_->values.clear();
  state_->graph = nullptr;
  return Access::MakeModel(std::move(state_->module));
}

Scope::Scope(GraphBuilder& builder, std::string_view path) : state_(Access::State(builder)) {
  if (state_ == nullptr) return;
  outer_length_ = state_->scope.size();
  const bool usable = !path.empty() && std::all_of(path.begin(), path.end(), [](char c) {
    return internal::IsName(std::string({'_', c})) || c == '/';
  });
  if (!usable) {
    state_->Fail({}, "scope", absl::StrFormat("'%s' is no path of names and numbers", path));
    return;
  }
  if (!state_->scope.empty()) state_->scope += '/';
  state_->scope += path;
}

Scope::~Scope() {
  if (state_ != nullptr) state_->scope.resize(outer_length_);
}

Autocast::Autocast(GraphBuilder& builder, AutocastRegion region) : state_(Access::State(builder)) {
  if (state_ != nullptr) state_->regions.push_back(ToRegion(region));
}

Autocast::~Autocast() {
  if (state_ != nullptr) state_->regions.pop_back();
}

std::string Model::name() const { return data_ == nullptr ? "" : data_->module->name(); }

std::string Model::Text() const { return data_ == nullptr ? "" : ir::Print(*data_->module); }

std::vector<Model::Entry> Model::inputs(std::string_view graph_name) const {
  std::vector<Entry> entries;
  if (data_ == nullptr) return entries;
  if (auto graph = internal::ForwardGraph(*data_->module, graph_name); graph.ok()) {
    for (const ir::Node* input : (*graph)->inputs()) {
      entries.push_back({input->name(), internal::FromType(input->type())});
    }
  }
  return entries;
}

std::vector<Model::Entry> Model::outputs(std::string_view graph_name) const {
  std::vector<Entry> entries;
  if (data_ == nullptr) return entries;
  if (auto graph = internal::ForwardGraph(*data_->module, graph_name); graph.ok()) {
    for (const ir::Output& output : (*graph)->outputs()) {
      entries.push_back({output.name, internal::FromType(output.value.type())});
    }
  }
  return entries;
}

std::vector<Model::Entry> Model::params() const {
  std::vector<Entry> entries;
  if (data_ == nullptr) return entries;
  for (const auto& entry : data_->module->state()) {
    if (entry->kind == ir::StateKind::kParam) {
      entries.push_back({entry->name, internal::FromType(entry->type)});
    }
  }
  return entries;
}

absl::StatusOr<Model> ParseModel(std::string_view text, std::string_view source) {
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module, ir::Parse(text, source));
  DUOTONE_RETURN_IF_ERROR(ir::Verify(*module)).With("%s", source);
  return Access::MakeModel(std::move(module));
}

absl::StatusOr<Model> LoadModel(const std::string& path) {
  DUOTONE_ASSIGN_OR_RETURN(std::string text, ReadFile(path, ir::ParseLimits().max_bytes));
  return ParseModel(text, path);
}

}  // namespace duotone
