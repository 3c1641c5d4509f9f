// The text of a row kernel:
//
//   const int t = threadIdx.x % 32; ... row = ...          which row, which part of it
//   Vec<half, 8> kept0[2]; ... kept0[k] = Load<8>(...);     what several phases read
//   float part0 = -Infinity();                              phase 0: its reductions
//   for (k) { ...part0 = Max(part0, t1); }
//   const float row0 = ReduceThreads<Greatest, 32>(part0);
//   ...                                                     phases 1, 2, ...
//   (blocks that walk over many rows: the partial results)
#include "codegen/cuda/row_kernel.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/integer.h"
#include "base/status.h"
#include "codegen/cuda/accumulator.h"
#include "codegen/cuda/emitter.h"

namespace duotone::codegen::cuda {
namespace {

using ir::Value;
using Kind = RowReduction::Kind;

// Sums of more numbers than this in one chain are added in two levels.
constexpr int kLongestChain = 64;

class Writer {
 public:
  Writer(const RowTask& task, const RowLayout& layout, const GuardOption& guard,
         const CodegenOptions& options)
      : task_(task),
        plan_(task.plan),
        layout_(layout),
        options_(options),
        emitter_(*task.body.graph, options),
        q_(Index::Variable("q", std::max<int64_t>(task.plan.columns / layout.vector, 1))),
        v_(Index::Variable("v", layout.vector)) {
    if (guard.present) emitter_.UseGuard();
    emitter_.SetInPlace(guard.in_place);
  }

  absl::StatusOr<GeneratedKernel> Run() {
    WriteThreads();
    WriteOnce();
    DeclareFlags();
    for (const RowResult& result : plan_.others) WriteOther(result);
    if (plan_.rows > 0) WriteRows();
    WritePartials();
    for (const auto& [output, name] : flags_) {
      Line(absl::StrFormat("if (!%s) AtomicAnd(%s, 0);", name, emitter_.FlagParameter(output)));
      kernel_.finite_results.push_back(output);
    }
    DUOTONE_RETURN_IF_ERROR(status_);
    DUOTONE_RETURN_IF_ERROR(emitter_.status());
    return Finished();
  }

 private:
  // ---- Text

  void Line(std::string_view text) {
    code_.append(static_cast<size_t>(indent_), ' ');
    code_.append(text);
    code_ += '\n';
  }
  // A block `head {` ... `}`; without braces where the head is "".
  void Block(const std::string& head, const std::function<void()>& body) {
    if (head.empty()) return body();
    Line(absl::StrCat(head, " {"));
    indent_ += 2;
    body();
    indent_ -= 2;
    Line("}");
  }
  std::string NewName(const std::string& prefix) { return absl::StrCat(prefix, next_[prefix]++); }
  // The type of numbers of rows and vectors.
  std::string IndexType() const { return emitter_.IndexType(); }

  // ---- Threads

  int64_t vectors() const { return plan_.columns / layout_.vector; }
  int64_t tiles() const { return CeilDiv(plan_.rows, layout_.groups); }
  bool is_registers() const { return layout_.form == RowForm::kRegisters; }
  bool is_unrolled() const { return layout_.is_unrolled(); }
  // Whether threads exist that have no row, or no vector k.
  bool has_idle_groups() const { return plan_.rows % layout_.groups != 0; }
  bool has_idle_threads() const {
    return static_cast<int64_t>(layout_.threads) * layout_.copies * layout_.column_tiles !=
           vectors();
  }

  void WriteThreads() {
    const int threads = layout_.threads;
    if (layout_.groups == 1) {
      Line("const int t = static_cast<int>(threadIdx.x);");
    } else {
      Line(absl::StrFormat("const int t = static_cast<int>(threadIdx.x) %% %d;", threads));
      Line(absl::StrFormat("const int group = static_cast<int>(threadIdx.x) / %d;", threads));
    }
    if (is_unrolled() && layout_.copies == 1) {
      Line(absl::StrFormat("const %s q = %s;", IndexType(), VectorNumber()));
    }
  }
  // The number of the thread's vector k.
  std::string VectorNumber() const {
    std::string text = "t";
    if (layout_.copies > 1) absl::StrAppendFormat(&text, " + %d * k", layout_.threads);
    if (layout_.column_tiles > 1) {
      absl::StrAppendFormat(&text, " + %d * static_cast<%s>(%s)", layout_.threads * layout_.copies,
                            IndexType(), layout_.column_block());
    }
    return text;
  }

  // A condition that holds for one thread of each row that exists.
  std::string OncePerRow() const {
    std::vector<std::string> parts;
    if (layout_.threads > 1) parts.push_back("t == 0");
    if (layout_.column_tiles > 1) parts.push_back(layout_.column_block() + " == 0");
    if (has_idle_groups()) parts.push_back("valid");
    return absl::StrJoin(parts, " && ");
  }

  // ---- Vectors of a row

  // `name` for the thread's vector k, where it has an array of them.
  std::string AtCopy(const std::string& name) const {
    return layout_.copies > 1 ? absl::StrCat(name, "[k]") : name;
  }
  std::string AtLane(const std::string& name) const {
    return absl::StrCat(AtCopy(name), layout_.vector > 1 ? "[v]" : "[0]");
  }
  void DeclareCopies(const std::string& type, const std::string& name) {
    Line(layout_.copies > 1 ? absl::StrFormat("%s %s[%d];", type, name, layout_.copies)
                            : absl::StrFormat("%s %s;", type, name));
  }

  // Runs `body` for each vector of the thread in the row, in order.
  void ForEachVector(const std::function<void()>& body, bool guarded = true) {
    if (plan_.columns == 0) return;
    if (!is_unrolled()) {
      if (layout_.unroll > 1) code_ += absl::StrFormat("#pragma unroll %d\n", layout_.unroll);
      if (layout_.unroll == 1) code_ += "#pragma unroll 1\n";
      Block(absl::StrFormat("for (%s q = t; q < %d; q += %d)", IndexType(), vectors(),
                            layout_.threads),
            body);
      return;
    }
    const std::string guard =
        guarded && has_idle_threads() ? absl::StrFormat("if (q < %d)", vectors()) : "";
    if (layout_.copies == 1) return Block(guard, body);
    code_ += "#pragma unroll\n";
    Block(absl::StrFormat("for (int k = 0; k < %d; ++k)", layout_.copies), [&] {
      const size_t begin = code_.size();
      Line(absl::StrFormat("const %s q = %s;", IndexType(), VectorNumber()));
      Block(guard, body);
      DropUnused("q", begin);
    });
  }

  void BeginElements() { emitter_.BeginSite({.vector = v_, .width = layout_.vector}); }
  void BeginRow(std::string guard = "") { emitter_.BeginSite({.guard = std::move(guard)}); }
  void EndSite() { code_ += emitter_.EndSite(indent_); }
  // An element, which may need its rounding, of a value at its place.
  std::string Get(Value value) {
    return emitter_.Get(value, plan_.AtVector(value, q_, v_, layout_.vector));
  }
  Coordinates PlaceOf(Value value) const { return plan_.AtVector(value, q_, v_, layout_.vector); }

  // From now on `value` is `text` at its place, and is needed nowhere else.
  void Bind(Value value, const std::string& text) {
    const auto sizes = SizesOf(value.type());
    const Index place = Linearise(PlaceOf(value), sizes);
    emitter_.Bind(value, [this, value, text, place, sizes](const Coordinates& at) {
      if (Linearise(at, sizes) != place && status_.ok()) {
        status_ = Unimplemented("%%%s of one row is read in another %s", value.name(),
                                value.node->Place());
      }
      return text;
    });
  }

  // ---- Before the rows

  void WriteOnce() {
    for (Value value : plan_.once) {
      const auto reduction =
          std::find_if(plan_.prologue.begin(), plan_.prologue.end(),
                       [&](const RowReduction& r) { return r.result() == value; });
      if (reduction != plan_.prologue.end()) {
        WritePrologue(*reduction);
        continue;
      }
      BeginRow();
      const std::string text = Get(value);
      EndSite();
      BindOnce(value, text);
    }
  }
  void BindOnce(Value value, const std::string& text) {
    emitter_.Bind(value, [text](const Coordinates&) { return text; });
  }

  // A reduction over few elements, by every block.
  void WritePrologue(const RowReduction& reduction) {
    const Value operand = reduction.operand();
    const DType accumulator = AccumulatorOf(operand.type().dtype);
    const std::string part = NewName("part");
    DeclareAccumulator(part, reduction);
    const int64_t elements = operand.type().elements();
    if (elements > 0) {
      Block(absl::StrFormat("for (%s i = static_cast<int>(threadIdx.x); i < %d; i += %d)",
                            IndexType(), elements, layout_.block_threads()),
            [&] {
              BeginRow();
              const Coordinates at =
                  Delinearise(Index::Variable("i", elements), SizesOf(operand.type()));
              emitter_.InLoop(absl::StrCat(
                  part, " = ",
                  Combined(reduction.combine, accumulator, part, Accumulated(operand, at)), ";"));
              EndSite();
            });
    }
    BindOnce(reduction.result(),
             ReducedName("all", reduction, part, layout_.block_threads(), /*in_rows=*/false));
  }

  // The element of a reduction's operand in the accumulator's type.
  std::string Accumulated(Value operand, const Coordinates& at) {
    const std::string text = emitter_.Get(operand, at);
    const DType accumulator = AccumulatorOf(operand.type().dtype);
    if (accumulator == DType::kI64 && operand.type().dtype != DType::kI64) {
      return absl::StrCat("static_cast<long long>(", text, ")");
    }
    return text;
  }

  static std::string AccumulatorType(const RowReduction& reduction) {
    const std::string type = ComputeType(AccumulatorOf(reduction.operand().type().dtype));
    return reduction.combine == Combine::kArgMax ? absl::StrCat("Best<", type, ">") : type;
  }
  static std::string Identity(const RowReduction& reduction) {
    const std::string text = IdentityOf(reduction.combine, reduction.operand().type().dtype);
    return reduction.combine == Combine::kArgMax ? absl::StrCat("BestOf(", text, ", 2147483647)")
                                                 : text;
  }
  void DeclareAccumulator(const std::string& name, const RowReduction& reduction) {
    Line(absl::StrFormat("%s %s = %s;", AccumulatorType(reduction), name, Identity(reduction)));
  }

  // Combines `part` over `threads` neighbouring threads and declares the result, in the compute
  // type of its dtype.
  std::string ReducedName(const std::string& prefix, const RowReduction& reduction,
                          const std::string& part, int threads, bool in_rows) {
    const Value result = reduction.result();
    const DType dtype = result.type().dtype;
    const std::string reduced = Reduce(reduction, part, threads, in_rows);
    const std::string text =
        reduction.combine == Combine::kArgMax
            ? absl::StrCat(reduced, ".index")
            : emitter_.Rounded(
                  result,
                  FromAccumulator(AccumulatorOf(reduction.operand().type().dtype), dtype, reduced));
    const std::string name = NewName(prefix);
    code_ += LineOfLabel(emitter_.AddLabel(LabelOf(*reduction.node)));
    Line(absl::StrFormat("const %s %s = %s;", ComputeType(dtype), name, text));
    code_ += LineOfNoLabel();
    return name;
  }
  std::string Reduce(const RowReduction& reduction, const std::string& part, int threads,
                     bool in_rows) {
    const std::string_view way = WayOf(reduction.combine).name;
    if (threads <= 32) return absl::StrFormat("ReduceThreads<%s, %d>(%s)", way, threads, part);
    const std::string exchange = NewName("exchange");
    Line(absl::StrFormat("DUOTONE_SHARED(%s, %s, %d);", AccumulatorType(reduction), exchange,
                         layout_.block_threads() / 32));
    if (in_rows) ++exchanges_in_rows_;
    return absl::StrFormat("ReduceThreads<%s, %d>(%s, %s)", way, threads, part, exchange);
  }

  void DeclareFlags() {
    for (const RowPhase& phase : plan_.phases) {
      for (const RowResult& result : phase.per_row) DeclareFlag(result);
      for (const RowResult& result : phase.per_element) DeclareFlag(result);
    }
    for (const RowResult& result : plan_.others) DeclareFlag(result);
  }
  void DeclareFlag(const RowResult& result) {
    if (!result.test || flags_.count(result.output) > 0) return;
    const std::string name = absl::StrCat("finite", result.output);
    flags_[result.output] = name;
    Line(absl::StrCat("bool ", name, " = true;"));
  }

  // ---- Rows

  void WriteRows() {
    DeclarePartials();
    const std::string first =
        absl::StrFormat("static_cast<%s>(%s)", IndexType(), layout_.row_block());
    const bool loops = tiles() > layout_.blocks;
    std::string head;
    if (loops) {
      head = absl::StrFormat("for (%s tile = %s; tile < %d; tile += %d)", IndexType(), first,
                             tiles(), layout_.blocks);
      const int unroll = plan_.has_row_reductions() ? layout_.rows_in_flight : layout_.unroll;
      if (unroll > 1) code_ += absl::StrFormat("#pragma unroll %d\n", unroll);
    }
    Block(head, [&] {
      WriteRowNumber(loops ? "tile" : first);
      WriteChecks();
      WriteKept();
      for (const RowPhase& phase : plan_.phases) WritePhase(phase);
      // The next row must not write what this row's only exchange is still read from.
      if (loops && exchanges_in_rows_ == 1) Line("Barrier();");
    });
  }

  void WriteRowNumber(const std::string& tile) {
    const std::string type = IndexType();
    std::string number = tile;
    if (layout_.groups > 1) {
      number = absl::StrFormat("%s * %d + group", tile, layout_.groups);
    }
    if (!has_idle_groups()) {
      Line(absl::StrFormat("const %s row = %s;", type, number));
      return;
    }
    // Groups without a row repeat the last one and keep quiet about it.
    Line(absl::StrFormat("const %s wanted = %s;", type, number));
    Line(absl::StrFormat("const bool valid = wanted < %d;", plan_.rows));
    Line(absl::StrFormat("const %s row = valid ? wanted : %d;", type, plan_.rows - 1));
  }

  // Labels outside their classes are reported.
  void WriteChecks() {
    for (const IndexCheck& check : task_.body.checks) {
      const Value indices = check.indices;
      if (indices.type().elements() != plan_.rows || check.op == "gather") continue;
      BeginRow();
      const Coordinates at = plan_.PlaceOf(indices) != nullptr
                                 ? PlaceOf(indices)
                                 : Delinearise(plan_.row, SizesOf(indices.type()));
      const std::string index = emitter_.Get(indices, at);
      std::string wanted = OncePerRow();
      if (check.ignored) {
        absl::StrAppend(&wanted, wanted.empty() ? "" : " && ", index,
                        " != ", IntLiteral(*check.ignored, DType::kI64));
      }
      const int label = emitter_.AddLabel(absl::StrFormat("%s %s", check.op, check.place));
      emitter_.InLoop(absl::StrCat(emitter_.IndexCheckExpression(
                                       index, check.limit, wanted.empty() ? "true" : wanted, label),
                                   ";"));
      EndSite();
    }
  }

  // Loads what several phases read, all of it at once, and lets later loads find it.
  void WriteKept() {
    if (layout_.form == RowForm::kGlobal) return;
    const std::vector<Value>& inputs = layout_.hold ? plan_.reread : plan_.reread_without;
    if (inputs.empty()) return;
    struct Kept {
      Index position = 0;
      std::string name;
    };
    std::map<int, Kept> kept;
    for (Value input : inputs) {
      const Index position = Linearise(PlaceOf(input), SizesOf(input.type()));
      const auto split = position.SplitBy(v_);
      // Elements that do not lie together are read again.
      if (layout_.vector > 1 && (!split || split->stride != 1)) continue;
      kept[InputNumber(input)] = {layout_.vector > 1 ? split->base : position, NewName("kept")};
    }
    if (kept.empty()) return;
    int64_t offset = 0;
    if (!is_registers()) {
      Line("DUOTONE_DYNAMIC_SHARED(unsigned char, staged);");
    }
    // One vector that every thread has needs no declaration of its own.
    const bool is_plain = is_registers() && layout_.copies == 1 && !has_idle_threads();
    for (const auto& [input, what] : kept) {
      const DType dtype = task_.body.graph->inputs()[static_cast<size_t>(input)]->type().dtype;
      const std::string type = absl::StrFormat("Vec<%s, %d>", StorageType(dtype), layout_.vector);
      if (is_registers()) {
        if (!is_plain) DeclareCopies(type, what.name);
        continue;
      }
      Line(absl::StrFormat("%s* const %s = reinterpret_cast<%s*>(staged + %d)%s;", type, what.name,
                           type, offset,
                           layout_.groups > 1 ? absl::StrFormat(" + %d * group", vectors()) : ""));
      offset += (plan_.columns * ByteSize(dtype) * layout_.groups + 15) / 16 * 16;
    }
    kernel_.shared_bytes = offset;
    const auto place = [this](const std::string& name) {
      return is_registers() ? AtCopy(name) : absl::StrCat(name, "[q]");
    };
    ForEachVector([&] {
      for (const auto& [input, what] : kept) {
        Line(absl::StrFormat("%s%s = Load<%d>(%s + %s);", is_plain ? "const auto " : "",
                             place(what.name), layout_.vector, emitter_.InputParameter(input),
                             what.position.ToString()));
      }
    });
    emitter_.SetVectorLoader(
        [this, kept, place](int input, const Index& position, int width) -> std::string {
          const auto it = kept.find(input);
          if (it == kept.end() || width != layout_.vector || position != it->second.position) {
            return "";
          }
          return absl::StrCat(place(it->second.name), width > 1 ? "" : "[0]");
        });
  }

  int InputNumber(Value input) const {
    const auto inputs = task_.body.graph->inputs();
    return static_cast<int>(std::find(inputs.begin(), inputs.end(), input.node) - inputs.begin());
  }

  void WritePhase(const RowPhase& phase) {
    for (Value value : phase.hoisted) {
      BeginRow();
      const std::string text = Get(value);
      EndSite();
      Bind(value, text);
    }
    WritePerRow(phase);
    if (!phase.has_elements()) return;

    std::vector<std::string> parts;
    for (const RowReduction& reduction : phase.reductions) {
      const bool is_row = reduction.kind == Kind::kRow;
      parts.push_back(is_row ? NewName("part") : "");
      if (is_row) DeclareAccumulator(parts.back(), reduction);
      if (is_row && IsLong(reduction)) {
        Line(absl::StrFormat("%s %s_total = %s;", AccumulatorType(reduction), parts.back(),
                             Identity(reduction)));
      }
    }
    const std::vector<Value> held = ToHold(phase);
    for (Value value : held) {
      held_[KeyOf(value)] = NewName("held");
      DeclareCopies(absl::StrFormat("Vec<%s, %d>", ComputeType(value.type().dtype), layout_.vector),
                    held_[KeyOf(value)]);
    }
    ForEachVector([&] {
      BeginElements();
      for (Value value : held) {
        emitter_.InLoop(absl::StrCat(AtLane(held_[KeyOf(value)]), " = ", Get(value), ";"));
      }
      for (size_t i = 0; i < phase.reductions.size(); ++i)
        Accumulate(phase.reductions[i], parts[i]);
      for (const RowResult& result : phase.per_element) WriteElement(result);
      EndSite();
    });
    for (Value value : held) Bind(value, AtLane(held_[KeyOf(value)]));
    for (size_t i = 0; i < phase.reductions.size(); ++i) {
      const RowReduction& reduction = phase.reductions[i];
      if (reduction.kind != Kind::kRow) continue;
      std::string part = parts[i];
      if (IsLong(reduction)) part = absl::StrFormat("%s_total + %s", part, part);
      Bind(reduction.result(),
           ReducedName("row", reduction, part, layout_.threads, /*in_rows=*/true));
    }
  }

  void WritePerRow(const RowPhase& phase) {
    if (!phase.per_row.empty()) {
      BeginRow(OncePerRow());
      for (const RowResult& result : phase.per_row) {
        const Coordinates at = PlaceOf(result.value);
        if (result.test) {
          Test(result, at);
        } else {
          emitter_.Store(result.output, at, emitter_.Get(result.value, at));
        }
      }
      EndSite();
    }
    if (phase.row_reductions.empty()) return;
    BeginRow();
    for (const RowReduction& reduction : phase.row_reductions) {
      const std::string name = partials_.at(reduction.node).name;
      AddTo(reduction, name, Accumulated(reduction.operand(), PlaceOf(reduction.operand())));
    }
    EndSite();
  }

  void WriteElement(const RowResult& result) {
    const Coordinates at = PlaceOf(result.value);
    if (result.test) return Test(result, at);
    std::string text = emitter_.Get(result.value, at);
    emitter_.Store(result.output, at, text);
  }
  void Test(const RowResult& result, const Coordinates& at) {
    const std::string& name = flags_[result.output];
    emitter_.InLoop(absl::StrFormat("%s = %s && IsFinite(%s);", name, name,
                                    emitter_.GetStored(result.value, at)));
  }

  // The expensive values that this phase is the first to compute.
  std::vector<Value> ToHold(const RowPhase& phase) const {
    std::vector<Value> held;
    if (!layout_.hold) return held;
    const int number = static_cast<int>(&phase - plan_.phases.data());
    for (Value value : plan_.expensive) {
      if (plan_.first_use.lookup(KeyOf(value)) == number) held.push_back(value);
    }
    return held;
  }

  bool IsLong(const RowReduction& reduction) const {
    return reduction.combine == Combine::kSum &&
           static_cast<int64_t>(layout_.copies) * layout_.vector > kLongestChain;
  }

  // Adds an element of a reduction over elements to the thread's part of it.
  void Accumulate(const RowReduction& reduction, const std::string& part) {
    const Value operand = reduction.operand();
    std::string text = Accumulated(operand, PlaceOf(operand));
    if (reduction.kind == Kind::kColumn) return AddToColumn(reduction, text);
    if (reduction.kind == Kind::kScalar) {
      return AddTo(reduction, partials_.at(reduction.node).name, text);
    }
    const DType accumulator = AccumulatorOf(operand.type().dtype);
    if (reduction.combine == Combine::kArgMax) {
      const Index column = q_ * layout_.vector + v_;
      text = absl::StrFormat("BestOf(%s, static_cast<int>(%s))", text, column.ToString());
    }
    emitter_.InLoop(
        absl::StrCat(part, " = ", Combined(reduction.combine, accumulator, part, text), ";"));
    if (!IsLong(reduction)) return;
    const int period = std::max(1, kLongestChain / layout_.vector);
    emitter_.AfterLoop(absl::StrFormat(
        "if ((q / %d) %% %d == %d) {\n  %s_total = %s;\n  %s = %s;\n}", layout_.threads, period,
        period - 1, part, Combined(Combine::kSum, accumulator, part + "_total", part), part,
        Identity(reduction)));
  }

  // name = name + text, where the row exists.
  void AddTo(const RowReduction& reduction, const std::string& name, const std::string& text) {
    const DType accumulator = AccumulatorOf(reduction.operand().type().dtype);
    emitter_.InLoop(absl::StrFormat("%s%s = %s;", has_idle_groups() ? "if (valid) " : "", name,
                                    Combined(reduction.combine, accumulator, name, text)));
  }
  void AddToColumn(const RowReduction& reduction, const std::string& text) {
    const Partial& partial = partials_.at(reduction.node);
    if (is_unrolled()) return AddTo(reduction, AtLane(partial.name), text);
    const std::string sum = NewName("sum");
    const std::string at = PartialAddress(partial);
    emitter_.BeforeLoop(absl::StrFormat("Vec<%s, %d> %s = Load<%d>(%s);",
                                        AccumulatorType(reduction), layout_.vector, sum,
                                        layout_.vector, at));
    AddTo(reduction, absl::StrCat(sum, layout_.vector > 1 ? "[v]" : "[0]"), text);
    emitter_.AfterLoop(absl::StrFormat("Store(%s, %s);", at, sum));
  }

  // ---- Partial results

  struct Partial {
    RowReduction reduction;
    std::string name;       // of what the thread has
    std::string parameter;  // [chunks, elements]
    int64_t elements = 1;
    int64_t chunks = 1;
  };
  // Where the block's part of a column's sums goes, for vector q.
  std::string PartialAddress(const Partial& partial) const {
    return absl::StrFormat("%s + %d * static_cast<%s>(%s) + %s", partial.parameter, plan_.columns,
                           PartialIndexType(), layout_.row_block(),
                           (q_ * layout_.vector).ToString());
  }
  std::string PartialIndexType() const {
    return plan_.columns * layout_.blocks < (int64_t{1} << 31) ? "int" : "long long";
  }

  void DeclarePartials() {
    for (const RowPhase& phase : plan_.phases) {
      for (const RowReduction& reduction : phase.row_reductions) DeclarePartial(reduction);
      for (const RowReduction& reduction : phase.reductions) {
        if (reduction.kind != Kind::kRow) DeclarePartial(reduction);
      }
    }
  }
  void DeclarePartial(const RowReduction& reduction) {
    Partial partial{.reduction = reduction, .name = NewName("total")};
    const bool is_column = reduction.kind == Kind::kColumn;
    partial.elements = is_column ? plan_.columns : 1;
    partial.chunks = is_column ? layout_.blocks : layout_.blocks * layout_.column_tiles;
    const DType accumulator = AccumulatorOf(reduction.operand().type().dtype);
    const int index = static_cast<int>(kernel_.temporaries.size());
    partial.parameter = absl::StrCat("partial", index);
    emitter_.AddParameter(
        absl::StrFormat("%s* __restrict__ %s", ComputeType(accumulator), partial.parameter),
        {.kind = Argument::Kind::kTemporary, .index = index});
    kernel_.temporaries.push_back(
        {.what = absl::StrCat("partial results of %", reduction.result().name()),
         .bytes = std::max<int64_t>(1, partial.chunks * partial.elements) * ByteSize(accumulator)});
    kernel_.finishes.push_back({.kind = WayOf(reduction.combine).finish,
                                .temporary = index,
                                .result = reduction.output,
                                .chunks = partial.chunks,
                                .elements = partial.elements,
                                .finite_result = reduction.finite_output,
                                .partial = accumulator});
    if (reduction.output < 0) {
      status_ = Unimplemented("a sum over rows that is no result %s", reduction.node->Place());
    }
    partials_[reduction.node] = partial;
    order_.push_back(reduction.node);
    if (!is_column) return DeclareAccumulator(partial.name, reduction);
    const std::string filled =
        absl::StrFormat("Filled<%d>(%s)", layout_.vector, Identity(reduction));
    if (is_unrolled()) {
      const std::string type =
          absl::StrFormat("Vec<%s, %d>", AccumulatorType(reduction), layout_.vector);
      if (layout_.copies == 1)
        return Line(absl::StrFormat("%s %s = %s;", type, partial.name, filled));
      DeclareCopies(type, partial.name);
      ForEachVector([&] { Line(absl::StrFormat("%s = %s;", AtCopy(partial.name), filled)); },
                    /*guarded=*/false);
    } else {
      ForEachVector(
          [&] { Line(absl::StrFormat("Store(%s, %s);", PartialAddress(partial), filled)); });
    }
  }

  void WritePartials() {
    if (plan_.rows == 0) DeclarePartials();
    for (const ir::Node* node : order_) {
      const Partial& partial = partials_.at(node);
      const RowReduction& reduction = partial.reduction;
      if (reduction.kind == Kind::kScalar) {
        WriteScalarPartial(partial);
      } else if (is_unrolled()) {
        WriteColumnPartial(partial);
      }
    }
  }
  void WriteScalarPartial(const Partial& partial) {
    const RowReduction& reduction = partial.reduction;
    std::string own = partial.name;
    std::vector<std::string> counts;
    if (IsPerRow(reduction)) {
      if (layout_.threads > 1) counts.push_back("t == 0");
      if (layout_.column_tiles > 1) counts.push_back(layout_.column_block() + " == 0");
    }
    if (!counts.empty()) {
      own =
          absl::StrFormat("%s ? %s : %s", absl::StrJoin(counts, " && "), own, Identity(reduction));
    }
    const std::string block = NewName("block");
    const std::string reduced = Reduce(reduction, own, layout_.block_threads(), false);
    Line(absl::StrFormat("const %s %s = %s;", AccumulatorType(reduction), block, reduced));
    Line(absl::StrFormat("if (threadIdx.x == 0) %s[%s] = %s;", partial.parameter, layout_.block(),
                         block));
  }
  void WriteColumnPartial(const Partial& partial) {
    const RowReduction& reduction = partial.reduction;
    std::string exchange = "nullptr";
    if (layout_.groups > 1) {
      std::string& name = column_exchange_[AccumulatorType(reduction)];
      if (name.empty()) {
        name = NewName("columns");
        Line(absl::StrFormat("DUOTONE_SHARED(%s, %s, %d);", AccumulatorType(reduction), name,
                             layout_.block_threads() * layout_.vector));
      }
      exchange = name;
    }
    ForEachVector(
        [&] {
          const std::string own = AtCopy(partial.name);
          if (layout_.groups > 1) {
            Line(absl::StrFormat("%s = ReduceGroups<%s, %d, %d>(%s, %s);", own,
                                 WayOf(reduction.combine).name, layout_.threads, layout_.groups,
                                 own, exchange));
          }
          std::vector<std::string> conditions;
          if (layout_.groups > 1) conditions.push_back("group == 0");
          if (has_idle_threads()) conditions.push_back(absl::StrFormat("q < %d", vectors()));
          Line(absl::StrCat(conditions.empty()
                                ? ""
                                : absl::StrCat("if (", absl::StrJoin(conditions, " && "), ") "),
                            "Store(", PartialAddress(partial), ", ", own, ");"));
        },
        /*guarded=*/false);
  }
  bool IsPerRow(const RowReduction& reduction) const {
    return std::any_of(plan_.phases.begin(), plan_.phases.end(), [&](const RowPhase& phase) {
      return std::any_of(phase.row_reductions.begin(), phase.row_reductions.end(),
                         [&](const RowReduction& r) { return r.node == reduction.node; });
    });
  }

  // ---- Results away from the rows

  void WriteOther(const RowResult& result) {
    const int64_t elements = result.value.type().elements();
    if (elements == 0) return;
    const int64_t stride = layout_.block_threads() * layout_.blocks;
    const std::string first = absl::StrFormat("static_cast<%s>(%s) * %d + threadIdx.x", IndexType(),
                                              layout_.row_block(), layout_.block_threads());
    Block(layout_.column_tiles > 1 ? absl::StrCat("if (", layout_.column_block(), " == 0)") : "",
          [&] {
            Block(absl::StrFormat("for (%s i = %s; i < %d; i += %d)", IndexType(), first, elements,
                                  stride),
                  [&] {
                    BeginRow();
                    const Coordinates at =
                        Delinearise(Index::Variable("i", elements), SizesOf(result.value.type()));
                    if (result.test) {
                      Test(result, at);
                    } else {
                      emitter_.Store(result.output, at, emitter_.Get(result.value, at));
                    }
                    EndSite();
                  });
          });
  }

  // A number of the thread, declared after `from`, that nothing asked for.
  void DropUnused(const std::string& name, size_t from = 0) {
    const size_t declared = code_.find(absl::StrCat(" ", name, " = "), from);
    if (declared == std::string::npos) return;
    const size_t begin = code_.rfind('\n', declared) + 1;
    const size_t end = code_.find('\n', declared) + 1;
    if (!Mentions(code_.substr(end), name)) code_.erase(begin, end - begin);
  }

  GeneratedKernel Finished() {
    for (const char* name : {"q", "row", "valid", "wanted", "group", "t"}) DropUnused(name);
    kernel_.family = task_.fusion->attrs_as<ir::FusionAttrs>().family;
    kernel_.source = emitter_.KernelText(code_, layout_.block_threads(), {"duotone/reduce.cuh"});
    kernel_.contract = !options_.exact;
    kernel_.grid = layout_.grid();
    kernel_.block = {layout_.block_threads(), 1, 1};
    kernel_.arguments = emitter_.Arguments();
    kernel_.labels = emitter_.labels();
    kernel_.flops = task_.work.flops;
    return std::move(kernel_);
  }

  const RowTask& task_;
  const RowPlan& plan_;
  const RowLayout& layout_;
  const CodegenOptions& options_;
  Emitter emitter_;
  const Index q_;
  const Index v_;
  GeneratedKernel kernel_;
  std::string code_;
  int indent_ = 2;
  std::map<std::string, int> next_;
  std::map<int, std::string> flags_;  // by all_finite output: the thread's part of the test
  llvm::DenseMap<ValueKey, std::string> held_;
  std::map<const ir::Node*, Partial> partials_;
  std::vector<const ir::Node*> order_;                  // of partials_
  std::map<std::string, std::string> column_exchange_;  // by type
  int exchanges_in_rows_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<GeneratedKernel> GenerateRows(const RowTask& task,
                                             const std::vector<RowLayout>& layouts,
                                             const GuardOption& guard,
                                             const CodegenOptions& options) {
  std::vector<Prediction> predictions;
  for (const RowLayout& layout : layouts) {
    predictions.push_back(Predict(*options.target, layout.schedule(), WorkOf(task, layout)));
  }
  DUOTONE_ASSIGN_OR_RETURN(predictions, Rank(*options.target, std::move(predictions),
                                             options.schedules, task.fusion->name()));
  const auto chosen = std::find_if(layouts.begin(), layouts.end(), [&](const RowLayout& layout) {
    return layout.schedule() == predictions[0].schedule;
  });
  DUOTONE_CHECK(chosen != layouts.end());
  RowLayout layout = *chosen;
  absl::StatusOr<GeneratedKernel> written = Writer(task, layout, guard, options).Run();
  if (!written.ok() && layout.hold) {  // a held value may be read in other rows, too
    layout.hold = false;
    written = Writer(task, layout, guard, options).Run();
  }
  DUOTONE_RETURN_IF_ERROR(written).With("%s", task.fusion->name());
  GeneratedKernel kernel = *std::move(written);
  kernel.schedule = predictions[0].schedule.ToString();
  kernel.schedules = ToText(predictions);
  return kernel;
}

}  // namespace duotone::codegen::cuda
