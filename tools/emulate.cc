#include "tools/emulate.h"

#include <algorithm>
#include <limits>
#include <random>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "duotone/initial_state.h"
#include "ir/interpreter.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/emulator/counter_report.h"
#include "runtime/state_store.h"
#include "tools/command.h"

namespace duotone::tools {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kNoLimit = 100;  // of integers that index nothing

// A size that is bound later is at least 1 where anything is indexed.
int64_t NumberOr1(const ir::Dim& dim) { return dim.is_number() ? dim.size() : 1; }

// Below what an integer value must stay for all that index with it: tables of gathers, bases of
// scatters, classes of losses; through reshapes and casts.
int64_t IndexLimit(ir::Value value) {
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (const ir::Node* user : value.node->users()) {
    if (user->operand_count() < 2 || user->operand(1) != value) {
      if (user->operand_count() == 1) {
        limit = std::min(limit, IndexLimit(ir::Value{const_cast<ir::Node*>(user), 0}));
      }
      continue;
    }
    const ir::Shape& shape = user->operand(0).type().shape;
    switch (user->op()) {
      case ir::Op::kGather:
      case ir::Op::kScatterAdd:
        limit = std::min(limit, NumberOr1(shape.front()));
        break;
      case ir::Op::kCrossEntropy:
      case ir::Op::kCrossEntropyGrad:
        limit = std::min(limit, NumberOr1(shape.back()));
        break;
      default:
        break;
    }
  }
  return limit;
}

ir::Array RandomInput(const ir::Type& type, int64_t limit, std::mt19937_64& random) {
  ir::Array array(type);
  std::uniform_real_distribution<double> real(-1.0, 1.0);
  std::uniform_int_distribution<int64_t> index(0, std::max<int64_t>(0, limit - 1));
  for (int64_t i = 0; i < array.elements(); ++i) {
    array.Set(i, IsFloat(type.dtype) ? real(random) : static_cast<double>(index(random)));
  }
  return array;
}

absl::Status FillInputs(const ir::Graph& graph, const runtime::Program& program,
                        runtime::Device& device, runtime::LoadedProgram& loaded) {
  std::mt19937_64 random(kSeed);
  for (const ir::Node* input : graph.inputs()) {
    const std::string& name = input->name(0);
    const int buffer = program.FindInput(name);
    if (buffer < 0) continue;
    const int64_t limit = IndexLimit(ir::Value{const_cast<ir::Node*>(input), 0});
    ir::Type type{program.buffers[buffer].dtype, {}};
    for (int64_t size : program.buffers[buffer].shape) type.shape.push_back(ir::Dim(size));
    const bool has_limit = limit != std::numeric_limits<int64_t>::max();
    const ir::Array value = RandomInput(type, has_limit ? limit : kNoLimit, random);
    DUOTONE_RETURN_IF_ERROR(device.Upload(loaded.memory(buffer), value.view().data, type.bytes()))
        .With("input %%%s", name);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EmulatedStep> EmulateStep(const ir::Module& trained, const std::string& entry,
                                         const runtime::Program& program,
                                         const emulator::EmulatorOptions& options) {
  EmulatedStep result;
  DUOTONE_ASSIGN_OR_RETURN(result.gpu, emulator::EmulatedGpu::Create(options));
  DUOTONE_ASSIGN_OR_RETURN(const std::unique_ptr<runtime::Device> device,
                           runtime::CreateCudaDevice({.driver = result.gpu->driver(),
                                                      .name = "emulated:" + options.architecture}));
  runtime::StateStore state(device.get());
  DUOTONE_RETURN_IF_ERROR(internal::InitialiseState(trained, kSeed, state));
  auto shared = std::make_shared<const runtime::Program>(program);
  DUOTONE_ASSIGN_OR_RETURN(const std::unique_ptr<runtime::LoadedProgram> loaded,
                           device->Load(shared, state));
  DUOTONE_RETURN_IF_ERROR(FillInputs(*trained.FindGraph(entry), program, *device, *loaded));
  result.status = device->Run(*loaded, {.seed = kSeed});
  if (result.status.ok()) result.status = device->Synchronize();
  return result;
}

absl::Status CheckCounters(const std::string& counters) {
  if (counters.empty() || counters == "place" || counters == "instruction") {
    return absl::OkStatus();
  }
  return UsageError(absl::StrFormat("--counters: '%s' is neither place nor instruction", counters));
}

absl::Status AddCounts(const emulator::Machine& machine, runtime::ProgramReport& report) {
  for (const auto& record : machine.records()) {
    if (record->note == nullptr || record->note->launch == nullptr) continue;
    DUOTONE_RETURN_IF_ERROR(
        runtime::AddCounts(report, record->note->step, emulator::WorkOf(*record)));
  }
  return absl::OkStatus();
}

}  // namespace duotone::tools
