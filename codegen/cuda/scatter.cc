// Kernels of the family scatter: one scatter_add, with elementwise work before and after it.
//
//   %s = scatter_add(%base, %indices, %updates)     f32[65, 128], i32[2048], f16[2048, 128]
//
// A warp owns some rows of the base and 32 vectors of their columns. It reads all indices, 32 at a
// time, and adds to its rows the updates that belong there, in the order of the indices and in f32:
// the result is the reference evaluator's to the last bit, whatever the schedule.
//
//   for (int i = 0; i < 2048; i += 32) {
//     unsigned int matches = Ballot(<index of lane i + lane is one of the rows>);
//     while (matches != 0) { <up to 4 updates: load together, add in order> }
//   }
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/integer.h"
#include "base/status.h"
#include "codegen/cuda/emitter.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/schedule.h"
#include "codegen/expand.h"

namespace duotone::codegen::cuda {
namespace {

using ir::Op;

class ScatterGenerator {
 public:
  ScatterGenerator(const ir::Node& fusion, const ir::Graph& body, const GuardOption& guard,
                   const CodegenOptions& options)
      : fusion_(fusion), body_(body), options_(options), emitter_(body, options) {
    if (guard.present) emitter_.UseGuard();
    emitter_.SetInPlace(guard.in_place);
  }

  absl::StatusOr<GeneratedKernel> Run();

 private:
  absl::Status Collect();
  // The element `column` of row `row`, in the shape of the base.
  Coordinates BaseAt(const Index& row, const Index& column) const;
  Prediction PredictWith(const Schedule& schedule) const;
  int64_t Segments(const Schedule& schedule) const {
    return std::max<int64_t>(1, CeilDiv(row_size_, 32 * static_cast<int64_t>(schedule.vector)));
  }
  int64_t Warps(const Schedule& schedule) const {
    return std::max<int64_t>(1, CeilDiv(rows_, schedule.rows_per_block)) * Segments(schedule);
  }
  std::string BaseCode(const Schedule& schedule);
  std::string UpdateCode(const Schedule& schedule);
  std::string ResultCode(const Schedule& schedule);
  // A site for each row that a warp owns, filled by fill(k).
  template <typename Fill>
  std::string ForEachRow(const Schedule& schedule, Fill&& fill);

  const ir::Node& fusion_;
  const ir::Graph& body_;
  const CodegenOptions& options_;
  Emitter emitter_;
  GeneratedKernel kernel_;
  ir::Node* scatter_ = nullptr;
  int64_t rows_ = 0;
  int64_t row_size_ = 1;
  int64_t count_ = 0;  // of indices
  llvm::SmallVector<int64_t, 6> row_sizes_;
  std::vector<int> outputs_;
  std::vector<std::pair<int, ir::Value>> finites_;
};

absl::Status ScatterGenerator::Collect() {
  for (const auto& node : body_.nodes()) {
    if (node->op() != Op::kScatterAdd) continue;
    if (scatter_ != nullptr) {
      return InvalidArgument("fusion: has several scatter_add, %%%s and %%%s %s", scatter_->name(),
                             node->name(), fusion_.Place());
    }
    scatter_ = node.get();
  }
  if (scatter_ == nullptr) {
    return InvalidArgument("fusion: family scatter without scatter_add %s", fusion_.Place());
  }
  const auto sizes = SizesOf(scatter_->type());
  rows_ = sizes[0];
  row_sizes_.assign(sizes.begin() + 1, sizes.end());
  for (int64_t size : row_sizes_) row_size_ *= size;
  count_ = scatter_->operand(1).type().elements();
  for (size_t i = 0; i < body_.outputs().size(); ++i) {
    const ir::Value value = body_.outputs()[i].value;
    llvm::SmallVector<ir::Value, 2> computed = {value};
    if (value.node->op() == Op::kAllFinite) {
      computed.assign(value.node->operands().begin(), value.node->operands().end());
      for (ir::Value tested : computed) finites_.emplace_back(static_cast<int>(i), tested);
      kernel_.finite_results.push_back(static_cast<int>(i));
    } else {
      outputs_.push_back(static_cast<int>(i));
    }
    for (ir::Value one : computed) {
      if (one.type().elements() == scatter_->type().elements()) continue;
      return Unimplemented("%%%s: has another shape, %s, than the scatter_add %s of its kernel %s",
                           one.name(), one.type().ToString(), scatter_->type().ToString(),
                           fusion_.Place());
    }
  }
  return absl::OkStatus();
}

Coordinates ScatterGenerator::BaseAt(const Index& row, const Index& column) const {
  Coordinates at = {row};
  const Coordinates inside = Delinearise(column, row_sizes_);
  at.append(inside.begin(), inside.end());
  return at;
}

Prediction ScatterGenerator::PredictWith(const Schedule& schedule) const {
  Work work;
  const double updates = static_cast<double>(scatter_->operand(2).type().bytes());
  const double warps = static_cast<double>(Warps(schedule));
  const double scans = static_cast<double>(CeilDiv(std::max<int64_t>(1, count_), 32));
  work.bytes_read = updates + static_cast<double>(scatter_->operand(0).type().bytes()) +
                    static_cast<double>(scatter_->operand(1).type().bytes());
  work.bytes_written = static_cast<double>(scatter_->type().bytes());
  work.l2_bytes = work.bytes_read + work.bytes_written;
  const double matches = static_cast<double>(count_) * static_cast<double>(Segments(schedule));
  work.instructions =
      32 * (warps * (20 + 10 * scans) +
            matches * (12 + 2.0 * schedule.vector * schedule.rows_per_block / schedule.unroll));
  work.flops = 32 * matches * schedule.vector;
  work.blocks = CeilDiv(Warps(schedule), schedule.threads / 32);
  work.registers = 32 + schedule.vector * schedule.rows_per_block + 4 * schedule.unroll;
  work.bytes_in_flight_per_thread = static_cast<double>(schedule.unroll) * schedule.vector *
                                    ByteSize(scatter_->operand(2).type().dtype);
  return Predict(*options_.target, schedule, work);
}

template <typename Fill>
std::string ScatterGenerator::ForEachRow(const Schedule& schedule, Fill&& fill) {
  const int width = schedule.vector;
  const Index v = Index::Variable("v", width);
  const Index column = Index::Variable("c", std::max<int64_t>(1, row_size_ / width)) * width + v;
  const bool all_rows =
      rows_ % schedule.rows_per_block == 0 && Warps(schedule) % (schedule.threads / 32) == 0;
  const bool all_columns = row_size_ % (32 * static_cast<int64_t>(width)) == 0;
  std::string condition = all_rows ? "" : absl::StrFormat("row < %d", rows_);
  if (!all_columns) absl::StrAppend(&condition, condition.empty() ? "" : " && ", "active");
  std::string code;
  for (int k = 0; k < schedule.rows_per_block; ++k) {
    emitter_.BeginSite({.vector = v, .width = width});
    fill(k, BaseAt(Index::Variable("row", std::max<int64_t>(1, rows_)), column));
    const std::string site = emitter_.EndSite(4);
    absl::StrAppend(&code, "  {\n");
    if (Mentions(condition, "row") || Mentions(site, "row")) {
      absl::StrAppendFormat(&code, "    const %s row = first%s;\n", emitter_.IndexType(),
                            k == 0 ? "" : absl::StrCat(" + ", k));
    }
    if (!condition.empty()) absl::StrAppendFormat(&code, "    if (%s) {\n", condition);
    absl::StrAppend(&code, condition.empty() ? site : Indent(site, 2));
    absl::StrAppend(&code, condition.empty() ? "  }\n" : "    }\n  }\n");
  }
  return code;
}

std::string ScatterGenerator::BaseCode(const Schedule& schedule) {
  const std::string type = ComputeType(scatter_->type().dtype);
  std::string code = absl::StrFormat("  Vec<%s, %d> sum[%d] = {};\n", type, schedule.vector,
                                     schedule.rows_per_block);
  return absl::StrCat(code, ForEachRow(schedule, [&](int k, const Coordinates& at) {
                        const std::string base = emitter_.Get(scatter_->operand(0), at);
                        emitter_.InLoop(absl::StrFormat("sum[%d][%s] = %s;", k,
                                                        schedule.vector == 1 ? "0" : "v", base));
                      }));
}

std::string ScatterGenerator::UpdateCode(const Schedule& schedule) {
  const std::string type = emitter_.IndexType();
  const int width = schedule.vector;
  const int owned = schedule.rows_per_block;
  const ir::Value indices = scatter_->operand(1);
  const ir::Value updates = scatter_->operand(2);
  const std::string inside = absl::StrFormat("n < %d", count_);

  emitter_.BeginSite({.guard = inside});
  const Index n = Index::Variable("n", std::max<int64_t>(2, count_));
  const std::string index = emitter_.Get(indices, Delinearise(n, SizesOf(indices.type())));
  const std::string check = emitter_.IndexCheckExpression(
      "index", rows_, absl::StrCat(inside, " && warp == 0"), emitter_.AddLabel(LabelOf(*scatter_)));
  const std::string scan = emitter_.EndSite(4);

  const Index v = Index::Variable("v", width);
  Emitter::Site site{.vector = v, .width = width};
  site.copy = schedule.unroll > 1 ? "u" : "";
  site.copies = schedule.unroll;
  emitter_.BeginSite(site);
  const Index m = Index::Variable("m", std::max<int64_t>(2, count_));
  Coordinates at = Delinearise(m, SizesOf(indices.type()));
  const Coordinates inner = Delinearise(
      Index::Variable("c", std::max<int64_t>(1, row_size_ / width)) * width + v, row_sizes_);
  at.append(inner.begin(), inner.end());
  const std::string update = emitter_.Get(updates, at);
  const std::string lane = width == 1 ? "0" : "v";
  for (int k = 0; k < owned; ++k) {
    emitter_.InLoop(absl::StrFormat("%ssum[%d][%s] = sum[%d][%s] + %s;",
                                    owned == 1 ? "" : absl::StrFormat("if (place[u] == %d) ", k), k,
                                    lane, k, lane, update));
  }
  const Emitter::Parts parts = emitter_.EndSiteParts(10, 6);

  const bool all_columns = row_size_ % (32 * static_cast<int64_t>(width)) == 0;
  const std::string wanted = all_columns ? "from[u] >= 0" : "from[u] >= 0 && active";
  std::string code = absl::StrFormat(
      "  for (%s i = 0; i < %d; i += 32) {\n"
      "    const %s n = i + lane;\n"
      "%s"
      "    const %s index = %s;\n"
      "    const bool fits = %s && %s;\n"
      "    unsigned int matches = Ballot(fits && index >= first && index < first + %d);\n"
      "    while (matches != 0) {\n"
      "      int from[%d];\n",
      type, count_, type, scan, ComputeType(indices.type().dtype), index, inside, check, owned,
      schedule.unroll);
  if (owned > 1) absl::StrAppendFormat(&code, "      int place[%d];\n", schedule.unroll);
  const std::string loop = absl::StrFormat(
      "#pragma unroll\n"
      "      for (int u = 0; u < %d; ++u) {\n",
      schedule.unroll);
  absl::StrAppend(&code, parts.declarations, loop,
                  "        from[u] = LowestBit(matches);\n"
                  "        matches &= matches - 1;\n");
  if (owned > 1) {
    absl::StrAppend(&code,
                    "        place[u] = static_cast<int>(Shuffle(index, from[u] & 31) - first);\n");
  }
  absl::StrAppend(&code, "      }\n");
  for (const std::string* part : {&parts.loads, &parts.body}) {
    if (part->empty()) continue;
    absl::StrAppend(&code, loop);
    if (Mentions(*part, "m")) {
      absl::StrAppend(&code, "        const ", type, " m = i + from[u];\n");
    }
    absl::StrAppend(&code, "        if (", wanted, ") {\n", *part, "        }\n      }\n");
  }
  absl::StrAppend(&code, "    }\n  }\n");
  return code;
}

std::string ScatterGenerator::ResultCode(const Schedule& schedule) {
  const ir::Value result = scatter_->result();
  std::string code;
  for (const auto& finite : finites_) {
    absl::StrAppendFormat(&code, "  bool finite%d = true;\n", finite.first);
  }
  absl::StrAppend(&code, ForEachRow(schedule, [&](int k, const Coordinates& at) {
    const std::string sum = absl::StrFormat("sum[%d][%s]", k, schedule.vector == 1 ? "0" : "v");
    emitter_.Bind(result, [&, sum](const Coordinates&) { return emitter_.Rounded(result, sum); });
    const auto place = [&](ir::Value value) {
      return value.type().shape == scatter_->type().shape
                 ? at
                 : Delinearise(Linearise(at, SizesOf(scatter_->type())), SizesOf(value.type()));
    };
    for (int output : outputs_) {
      const ir::Value value = body_.outputs()[static_cast<size_t>(output)].value;
      emitter_.Store(output, place(value), emitter_.Get(value, place(value)));
    }
    for (const auto& [output, value] : finites_) {
      emitter_.InLoop(absl::StrFormat("finite%d &= IsFinite(%s);", output,
                                      emitter_.GetStored(value, place(value))));
    }
    emitter_.Unbind(result);
  }));
  for (const auto& finite : finites_) {
    absl::StrAppendFormat(&code, "  if (!finite%d) AtomicAnd(%s, 0);\n", finite.first,
                          emitter_.FlagParameter(finite.first));
  }
  return code;
}

absl::StatusOr<GeneratedKernel> ScatterGenerator::Run() {
  DUOTONE_RETURN_IF_ERROR(Collect());
  // Vectors divide the row, of the base as of each update.
  std::vector<Prediction> predictions;
  for (int vector = 8; vector >= 1; vector /= 2) {
    if (vector > 1 && (row_size_ == 0 || row_size_ % vector != 0)) continue;
    for (int rows : {1, 2, 4}) {
      for (int unroll : {2, 4}) {
        for (int threads : {64, 128, 256}) {
          predictions.push_back(PredictWith(
              {.vector = vector, .unroll = unroll, .threads = threads, .rows_per_block = rows}));
        }
      }
    }
  }
  DUOTONE_ASSIGN_OR_RETURN(
      const std::vector<Prediction> ranked,
      Rank(*options_.target, std::move(predictions), options_.schedules, fusion_.name()));
  const Schedule schedule = ranked.front().schedule;
  kernel_.schedule = schedule.ToString();
  kernel_.schedules = ToText(ranked);

  const std::string type = emitter_.IndexType();
  const int64_t segments = Segments(schedule);
  std::string code = absl::StrFormat(
      "  const int lane = threadIdx.x %% 32;\n"
      "  const %s warp = %s * %d + threadIdx.x / 32;\n"
      "  const %s first = warp%s%s;\n"
      "  const %s c = %slane;\n",
      type, type == "int" ? "blockIdx.x" : "static_cast<long long>(blockIdx.x)",
      schedule.threads / 32, type, segments == 1 ? "" : absl::StrFormat(" / %d", segments),
      schedule.rows_per_block == 1 ? "" : absl::StrFormat(" * %d", schedule.rows_per_block), type,
      segments == 1 ? "" : absl::StrFormat("warp %% %d * 32 + ", segments));
  if (row_size_ % (32 * static_cast<int64_t>(schedule.vector)) != 0) {
    absl::StrAppendFormat(&code, "  const bool active = c < %d;\n", row_size_ / schedule.vector);
  }
  absl::StrAppend(&code, BaseCode(schedule), UpdateCode(schedule), ResultCode(schedule));
  DUOTONE_RETURN_IF_ERROR(emitter_.status());
  kernel_.family = "scatter";
  kernel_.source = emitter_.KernelText(code, schedule.threads);
  kernel_.contract = !options_.exact;
  kernel_.grid = {CeilDiv(Warps(schedule), schedule.threads / 32), 1, 1};
  kernel_.block = {schedule.threads, 1, 1};
  kernel_.arguments = emitter_.Arguments();
  kernel_.labels = emitter_.labels();
  kernel_.flops = static_cast<double>(scatter_->operand(2).type().elements());
  return std::move(kernel_);
}

}  // namespace

absl::StatusOr<GeneratedKernel> GenerateScatter(const ir::Node& fusion, GuardOption guard,
                                                const CodegenOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(const ExpandedBody body, ExpandBody(*fusion.body()));
  return ScatterGenerator(fusion, *body.graph, guard, options).Run();
}

}  // namespace duotone::codegen::cuda
