#include "tools/kernel_json.h"

#include <string>

#include "absl/strings/str_format.h"

namespace duotone::tools {
namespace {

using Json = nlohmann::ordered_json;
using runtime::AccessWidths;
using runtime::KernelCode;
using runtime::LaunchReport;
using runtime::OpcodeMix;
using runtime::SassLoop;

// {"32": 4, "128": 2}: widths in bits that occur.
Json ToJson(const AccessWidths& widths) {
  Json json = Json::object();
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] > 0) json[std::to_string(runtime::kAccessBits[i])] = widths[i];
  }
  return json;
}

Json ToJson(const OpcodeMix& mix) {
  Json classes = Json::object();
  for (int i = 0; i < runtime::kSassClasses; ++i) {
    if (mix.classes[i] == 0) continue;
    classes[std::string(SassClassName(static_cast<runtime::SassClass>(i)))] = mix.classes[i];
  }
  Json unknown = Json::object();
  for (const auto& [opcode, count] : mix.unknown) {
    unknown[absl::StrFormat("0x%03x", opcode)] = count;
  }
  return {{"instructions", mix.instructions},
          {"classes", classes},
          {"global_loads", ToJson(mix.global_loads)},
          {"global_stores", ToJson(mix.global_stores)},
          {"shared_loads", ToJson(mix.shared_loads)},
          {"shared_stores", ToJson(mix.shared_stores)},
          {"async_copies", ToJson(mix.async_copies)},
          {"matrices", mix.matrices},
          {"opcodes", mix.opcodes},
          {"unknown", unknown}};
}

Json ToJson(const SassLoop* loop, double trips) {
  if (loop == nullptr) return nullptr;
  Json json = {{"begin", loop->begin}, {"end", loop->end}, {"trips", trips}};
  json.update(ToJson(loop->mix));
  return json;
}

Json ToJson(const runtime::PredictedTerms& us) {
  Json json = Json::object();
  for (const auto& [term, value] : TermsOf(us)) json[std::string(term)] = value;
  json["launch"] = us.launch;
  json["total"] = us.total;
  return json;
}

Json ToJson(const KernelCode& kernel, const LaunchReport& launch) {
  Json json = {{"name", kernel.name},
               {"node", launch.node},
               {"family", launch.family},
               {"step", launch.step},
               {"grid", launch.grid},
               {"block", launch.block},
               {"registers", kernel.registers},
               {"barriers", kernel.barriers},
               {"spill_bytes", kernel.spill_bytes()},
               {"local_bytes", kernel.local_bytes},
               {"local_accesses", kernel.sass.all.Count(runtime::SassClass::kLocalLoad) +
                                      kernel.sass.all.Count(runtime::SassClass::kLocalStore)},
               {"stack_bytes", kernel.stack_bytes},
               {"shared_bytes", kernel.shared_bytes + launch.dynamic_shared_bytes},
               {"constant_bytes", kernel.constant_bytes},
               {"code_bytes", kernel.code_bytes},
               {"occupancy",
                {{"blocks", launch.occupancy.blocks},
                 {"warps", launch.occupancy.warps},
                 {"share", launch.occupancy.share},
                 {"limiter", std::string(launch.occupancy.limiter)}}},
               {"waves", launch.waves},
               {"tensor_share", kernel.tensor_share()},
               {"bytes_read", launch.bytes_read},
               {"bytes_written", launch.bytes_written},
               {"flops", launch.flops},
               {"intensity", launch.intensity()},
               {"us", ToJson(launch.us)},
               {"limiter", std::string(launch.limiter)},
               {"code", ToJson(kernel.sass.all)},
               {"main_loop", ToJson(kernel.sass.main_loop(), launch.trips)}};
  if (launch.counted.has_value()) json["counted"] = tools::ToJson(*launch.counted);
  return json;
}

Json ToJson(const runtime::FamilyTotals& totals) {
  return {{"kernels", totals.launches},
          {"bytes", totals.bytes},
          {"flops", totals.flops},
          {"us", totals.us}};
}

}  // namespace

Json ToJson(const runtime::CountedWork& counted) {
  Json json = {{"instructions", counted.instructions},
               {"skipped", counted.skipped},
               {"lanes", counted.lanes},
               {"fp32", counted.fp32},
               {"integer", counted.integer},
               {"mufu", counted.mufu},
               {"barriers", counted.barriers},
               {"requests", counted.requests},
               {"sectors", counted.sectors},
               {"ideal_sectors", counted.ideal_sectors},
               {"shared_requests", counted.shared_requests},
               {"shared_ways", counted.shared_ways},
               {"ideal_shared_ways", counted.ideal_shared_ways},
               {"tensor_flops", counted.tensor_flops},
               {"bytes_moved", counted.bytes_moved}};
  if (counted.bytes_read >= 0) json["bytes_read"] = counted.bytes_read;
  if (counted.bytes_written >= 0) json["bytes_written"] = counted.bytes_written;
  return json;
}

Json ToJson(const runtime::ProgramReport& report, const runtime::CompileStatistics& statistics) {
  Json json = {{"schema", 1},
               {"program", report.program},
               {"target", std::string(report.target->name)},
               {"device", std::string(report.target->device)},
               {"kernels", Json::array()}};
  for (const LaunchReport& launch : report.launches) {
    json["kernels"].push_back(ToJson(report.kernels[launch.kernel], launch));
  }
  Json step = ToJson(report.total);
  step["different_kernels"] = report.kernels.size();
  step["fills"] = report.fills;
  step["copies"] = report.copies;
  step["fill_and_copy_bytes"] = report.fill_and_copy_bytes;
  step["limiter"] = std::string(report.limiter);
  step["families"] = Json::object();
  for (const runtime::FamilyTotals& family : report.families) {
    step["families"][family.family] = ToJson(family);
  }
  json["step"] = step;
  json["compile"] = {{"compiled", statistics.compiled},
                     {"cache_hits", statistics.cache_hits},
                     {"threads", statistics.threads},
                     {"seconds", statistics.seconds},
                     {"compile_seconds", statistics.compile_seconds}};
  return json;
}

}  // namespace duotone::tools
