#include "tests/codegen/run_program.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/status.h"
#include "ir/text.h"

namespace duotone::codegen::cpu {
namespace {

uint64_t Next(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

}  // namespace

std::unique_ptr<ir::Module> ParseOrDie(std::string_view text) {
  absl::StatusOr<std::unique_ptr<ir::Module>> module = ir::Parse(text);
  DUOTONE_CHECK(module.ok()) << module.status();
  return *std::move(module);
}

ir::Array RandomArray(const ir::Type& type, uint64_t seed) {
  ir::Array array(type);
  uint64_t state = HashCombine(kFnvOffset, seed);
  for (int64_t i = 0; i < array.elements(); ++i) {
    const uint64_t bits = Next(state);
    if (type.dtype == DType::kBool) {
      array.Set(i, static_cast<double>(bits % 2));
    } else if (IsFloat(type.dtype)) {
      array.Set(i, static_cast<double>(bits) / (uint64_t{1} << 29) - 2);
    } else {
      array.Set(i, static_cast<double>(bits % 4));
    }
  }
  return array;
}

ir::ArrayMap RandomInputs(const ir::Graph& graph, uint64_t seed) {
  ir::ArrayMap arrays;
  for (const ir::Node* input : graph.inputs()) {
    arrays[input->name()] = RandomArray(input->type(), Fnv1a(input->name()) + seed);
  }
  return arrays;
}

ir::ArrayMap RandomState(const ir::Module& module, uint64_t seed) {
  ir::ArrayMap arrays;
  for (const auto& entry : module.state()) {
    arrays[entry->name] = RandomArray(entry->type, Fnv1a(entry->name) + seed);
  }
  return arrays;
}

CpuSession::CpuSession(const ir::Module& module, const ir::ArrayMap& state, int threads,
                       LowerOptions options)
    : module_(module),
      options_(std::move(options)),
      device_(runtime::CreateCpuDevice({.threads = threads})),
      state_(device_.get()) {
  options_.use_library = options_.use_library && runtime::CpuDeviceHasLibrary();
  for (const auto& entry : module.state()) {
    std::vector<int64_t> shape;
    for (const ir::Dim& dim : entry->type.shape) shape.push_back(dim.size());
    DUOTONE_CHECK(state_.Add(entry->name, entry->type.dtype, shape).ok()) << entry->name;
    const ir::Array& array = state.find(entry->name)->second;
    DUOTONE_CHECK(state_.Write(entry->name, array.view().data, entry->type.bytes()).ok())
        << entry->name;
  }
}

absl::StatusOr<runtime::LoadedProgram*> CpuSession::Load(const ir::Graph& graph) {
  std::unique_ptr<runtime::LoadedProgram>& loaded = programs_[graph.name()];
  if (loaded == nullptr) {
    DUOTONE_ASSIGN_OR_RETURN(runtime::Program program, Lower(graph, options_));
    DUOTONE_ASSIGN_OR_RETURN(
        loaded, device_->Load(std::make_shared<runtime::Program>(std::move(program)), state_));
  }
  return loaded.get();
}

absl::StatusOr<ir::InterpreterResult> CpuSession::Run(const ir::Graph& graph,
                                                      const ir::ArrayMap& inputs,
                                                      runtime::RunOptions options) {
  DUOTONE_ASSIGN_OR_RETURN(runtime::LoadedProgram * loaded, Load(graph));
  for (const auto& input : loaded->program().inputs) {
    const runtime::DeviceMemory memory = loaded->memory(input.buffer);
    const ir::Array& array = inputs.find(input.name)->second;
    DUOTONE_RETURN_IF_ERROR(device_->Upload(memory, array.view().data, memory.bytes));
  }
  DUOTONE_RETURN_IF_ERROR(device_->Run(*loaded, options));
  ir::InterpreterResult result;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const runtime::DeviceMemory memory = loaded->memory(loaded->program().outputs[i].buffer);
    ir::Array array(graph.outputs()[i].value.type());
    DUOTONE_RETURN_IF_ERROR(device_->Download(memory, array.view().data, memory.bytes));
    result.outputs[loaded->program().outputs[i].name] = std::move(array);
  }
  result.state = State();
  return result;
}

ir::ArrayMap CpuSession::State() {
  ir::ArrayMap arrays;
  for (const auto& entry : module_.state()) {
    ir::Array array(entry->type);
    DUOTONE_CHECK(state_.Read(entry->name, array.view().data, entry->type.bytes()).ok())
        << entry->name;
    arrays[entry->name] = std::move(array);
  }
  return arrays;
}

std::string Difference(const ir::ArrayMap& actual, const ir::ArrayMap& expected) {
  if (actual.size() != expected.size()) {
    return absl::StrFormat("%d arrays instead of %d", actual.size(), expected.size());
  }
  for (const auto& entry : expected) {
    const std::string name = entry.getKey().str();
    auto it = actual.find(name);
    if (it == actual.end()) return absl::StrCat("no ", name);
    if (it->second.BitEqual(entry.getValue())) continue;
    for (int64_t i = 0; i < entry.getValue().elements(); ++i) {
      const double a = it->second.Get(i);
      const double b = entry.getValue().Get(i);
      if (a != b) return absl::StrFormat("%s[%d]: %g instead of %g", name, i, a, b);
    }
    return absl::StrCat(name, ": other bits or another type");
  }
  return "";
}

std::string Difference(const ir::InterpreterResult& actual, const ir::InterpreterResult& expected) {
  const std::string outputs = Difference(actual.outputs, expected.outputs);
  if (!outputs.empty()) return absl::StrCat("output ", outputs);
  const std::string state = Difference(actual.state, expected.state);
  return state.empty() ? "" : absl::StrCat("state ", state);
}

}  // namespace duotone::codegen::cpu
