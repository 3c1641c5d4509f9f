#include "runtime/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace duotone::runtime {
namespace {

int Find(const std::vector<NamedBuffer>& list, std::string_view name) {
  auto it = std::find_if(list.begin(), list.end(),
                         [&](const NamedBuffer& entry) { return entry.name == name; });
  return it == list.end() ? -1 : it->buffer;
}

std::string SizeToString(int64_t bytes) {
  if (bytes < 1000) return absl::StrFormat("%d B", bytes);
  double size = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KB", "MB", "GB", "TB", "PB"}) {
    if (size < 1000) break;
    size /= 1000;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", size, unit);
}

std::string BufferList(const std::vector<int>& buffers) {
  return absl::StrJoin(buffers, ", ",
                       [](std::string* out, int id) { absl::StrAppend(out, "b", id); });
}

std::string ActionToString(const HostCall& call) {
  std::string text = absl::StrFormat("call    %s %%%s  %s = (%s)", call.op, call.node,
                                     BufferList(call.results), BufferList(call.operands));
  absl::StrAppendFormat(&text, "  items=%d grain=%d", call.items, call.grain);
  if (call.scratch >= 0) absl::StrAppend(&text, " scratch=b", call.scratch);
  return text;
}

std::string ActionToString(const MatMul& mm) {
  std::string text = absl::StrFormat("matmul  %%%s  b%d = b%d%s * b%d%s  %dx%dx%dx%d", mm.node,
                                     mm.result, mm.a, mm.transpose_a ? "'" : "", mm.b,
                                     mm.transpose_b ? "'" : "", mm.batch, mm.m, mm.n, mm.k);
  if (mm.batch > 1) {
    absl::StrAppendFormat(&text, " strides=%d,%d,%d", mm.stride_a, mm.stride_b, mm.stride_result);
  }
  for (int wide : {mm.wide_a, mm.wide_b, mm.wide_result}) {
    if (wide >= 0) absl::StrAppend(&text, " wide=b", wide);
  }
  return text;
}

std::string ActionToString(const Copy& copy) {
  return absl::StrFormat("copy    b%d = b%d", copy.to, copy.from);
}

std::string ActionToString(const Fill& fill) {
  std::string text = absl::StrFormat("fill    b%d = 0x", fill.to);
  for (uint8_t byte : fill.element) absl::StrAppendFormat(&text, "%02x", byte);
  return text;
}

std::string ActionToString(const KernelLaunch& launch) {
  std::string text =
      absl::StrFormat("launch  %s %%%s  k%d <<<%s, %s", launch.family, launch.node, launch.kernel,
                      absl::StrJoin(launch.grid, "x"), absl::StrJoin(launch.block, "x"));
  if (launch.shared_bytes > 0) absl::StrAppend(&text, ", ", launch.shared_bytes);
  const auto list = [](const std::vector<int>& buffers) {
    return absl::StrJoin(buffers, ", ",
                         [](std::string* out, int b) { absl::StrAppend(out, "b", b); });
  };
  return absl::StrFormat("%s>>>  (%s) -> (%s)", text, list(launch.reads), list(launch.writes));
}

// The checks of CheckProgram, which stop at the first violation.
class Checker {
 public:
  explicit Checker(const Program& program) : program_(program) {}

  absl::Status Run() {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      DUOTONE_RETURN_IF_ERROR(CheckBuffer(static_cast<int>(i)));
    }
    for (const auto* list : {&program_.inputs, &program_.outputs, &program_.state}) {
      for (const NamedBuffer& entry : *list) DUOTONE_RETURN_IF_ERROR(CheckIndex(entry.buffer));
    }
    if (program_.rng_position >= 0) {
      DUOTONE_RETURN_IF_ERROR(CheckIndex(program_.rng_position));
      if (BufferAt(program_.rng_position).bytes != ByteSize(DType::kI64))
        return Bad("rng_position");
    }
    for (const Constant& constant : program_.constants) {
      DUOTONE_RETURN_IF_ERROR(CheckIndex(constant.buffer));
      const Buffer& buffer = BufferAt(constant.buffer);
      const int64_t size = static_cast<int64_t>(constant.bytes.size());
      if (size != buffer.bytes && size != ByteSize(buffer.dtype)) return Bad("constant size");
    }
    for (const Step& step : program_.steps) {
      if (step.guard >= 0) {
        DUOTONE_RETURN_IF_ERROR(CheckIndex(step.guard));
        if (BufferAt(step.guard).bytes < 1) return Bad("guard size");
      }
      absl::Status status =
          std::visit([&](const auto& action) { return Check(action); }, step.action);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  const Buffer& BufferAt(int index) const { return program_.buffers[index]; }

  absl::Status Bad(std::string_view what) const {
    return Internal("program @%s: bad %s", program_.name, what);
  }

  absl::Status CheckIndex(int index) const {
    if (index < 0 || static_cast<size_t>(index) >= program_.buffers.size()) {
      return Internal("program @%s: buffer %d of %d", program_.name, index,
                      program_.buffers.size());
    }
    return absl::OkStatus();
  }

  absl::Status CheckBuffer(int index) const {
    const Buffer& buffer = BufferAt(index);
    if (buffer.bytes < 0) return Bad("buffer size");
    if (buffer.alias_of >= 0) {
      DUOTONE_RETURN_IF_ERROR(CheckIndex(buffer.alias_of));
      const Buffer& root = BufferAt(buffer.alias_of);
      if (root.alias_of >= 0 || root.bytes != buffer.bytes || root.kind != buffer.kind ||
          root.offset != buffer.offset) {
        return Bad("alias");
      }
    }
    if (buffer.kind == BufferKind::kState) return absl::OkStatus();
    if (buffer.offset < 0 || buffer.offset % kBufferAlignment != 0 ||
        buffer.offset > program_.arena_bytes ||
        buffer.bytes > program_.arena_bytes - buffer.offset) {
      return Bad("buffer offset");
    }
    return absl::OkStatus();
  }

  absl::Status Check(const HostCall& call) const {
    if (call.kernel == nullptr || call.grain < 1 || call.items < 0) return Bad("call");
    for (const auto* list : {&call.operands, &call.results}) {
      for (int buffer : *list) DUOTONE_RETURN_IF_ERROR(CheckIndex(buffer));
    }
    return call.scratch < 0 ? absl::OkStatus() : CheckIndex(call.scratch);
  }

  // The buffer holds `batch` matrices of `elements`, `stride` apart, in its own dtype; its wide
  // copy in f32.
  absl::Status CheckMatrix(const MatMul& mm, int buffer, int wide, int64_t elements,
                           int64_t stride) const {
    DUOTONE_RETURN_IF_ERROR(CheckIndex(buffer));
    const DType dtype = BufferAt(buffer).dtype;
    if (dtype != DType::kF32 && !IsLow(dtype)) return Bad("matmul dtype");
    if (stride < 0 || elements < 0 || mm.batch < 0) return Bad("matmul shape");
    const int64_t last = mm.batch == 0 ? 0 : (mm.batch - 1) * stride + elements;
    if (last * ByteSize(dtype) > BufferAt(buffer).bytes) return Bad("matmul operand");
    if (dtype == DType::kF32) return absl::OkStatus();
    DUOTONE_RETURN_IF_ERROR(CheckIndex(wide));
    if (BufferAt(wide).bytes < last * ByteSize(DType::kF32)) return Bad("matmul temporary");
    return absl::OkStatus();
  }

  absl::Status Check(const MatMul& mm) const {
    DUOTONE_RETURN_IF_ERROR(CheckMatrix(mm, mm.a, mm.wide_a, mm.m * mm.k, mm.stride_a));
    DUOTONE_RETURN_IF_ERROR(CheckMatrix(mm, mm.b, mm.wide_b, mm.k * mm.n, mm.stride_b));
    return CheckMatrix(mm, mm.result, mm.wide_result, mm.m * mm.n, mm.stride_result);
  }

  absl::Status Check(const Copy& copy) const {
    DUOTONE_RETURN_IF_ERROR(CheckIndex(copy.from));
    DUOTONE_RETURN_IF_ERROR(CheckIndex(copy.to));
    return BufferAt(copy.from).bytes == BufferAt(copy.to).bytes ? absl::OkStatus() : Bad("copy");
  }

  absl::Status Check(const Fill& fill) const {
    DUOTONE_RETURN_IF_ERROR(CheckIndex(fill.to));
    const int64_t size = static_cast<int64_t>(fill.element.size());
    return size > 0 && BufferAt(fill.to).bytes % size == 0 ? absl::OkStatus() : Bad("fill");
  }

  absl::Status Check(const KernelLaunch& launch) const {
    if (launch.kernel < 0 || static_cast<size_t>(launch.kernel) >= program_.kernels.size()) {
      return Bad("kernel index");
    }
    for (const auto* sizes : {&launch.grid, &launch.block}) {
      for (int64_t size : *sizes) {
        if (size < 1 || size > kMaxGrid) return Bad("launch size");
      }
    }
    if (launch.shared_bytes < 0) return Bad("shared memory size");
    for (const auto* list : {&launch.reads, &launch.writes}) {
      for (int buffer : *list) DUOTONE_RETURN_IF_ERROR(CheckIndex(buffer));
    }
    for (const LaunchArgument& argument : launch.arguments) {
      if (argument.kind == LaunchArgument::Kind::kBuffer) {
        DUOTONE_RETURN_IF_ERROR(CheckAddress(argument.address));
      }
      for (const BufferAddress& address : argument.table) {
        DUOTONE_RETURN_IF_ERROR(CheckAddress(address));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckAddress(const BufferAddress& address) const {
    DUOTONE_RETURN_IF_ERROR(CheckIndex(address.buffer));
    const bool inside = address.offset >= 0 && address.offset <= BufferAt(address.buffer).bytes;
    return inside ? absl::OkStatus() : Bad("address");
  }

  // What the driver allows in the first dimension.
  static constexpr int64_t kMaxGrid = (int64_t{1} << 31) - 1;

  const Program& program_;
};

}  // namespace

std::string_view BufferKindName(BufferKind kind) {
  switch (kind) {
    case BufferKind::kInput:
      return "input";
    case BufferKind::kState:
      return "state";
    case BufferKind::kConstant:
      return "constant";
    case BufferKind::kTemporary:
      return "temporary";
    case BufferKind::kOutput:
      return "output";
  }
  return "";
}

std::string TypeToString(DType dtype, std::span<const int64_t> shape) {
  return absl::StrFormat("%s[%s]", DTypeName(dtype), absl::StrJoin(shape, ", "));
}

int Program::FindInput(std::string_view name) const { return Find(inputs, name); }
int Program::FindOutput(std::string_view name) const { return Find(outputs, name); }
int Program::FindState(std::string_view name) const { return Find(state, name); }

int Program::RootOf(int buffer) const {
  return buffers[buffer].alias_of >= 0 ? buffers[buffer].alias_of : buffer;
}

std::string Program::ToString() const {
  std::string text = absl::StrFormat("program @%s: arena %s (unplanned %s), state %s\n", name,
                                     SizeToString(arena_bytes), SizeToString(unplanned_bytes),
                                     SizeToString(state_bytes));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    absl::StrAppendFormat(&text, "  b%-3d %-9s %s  %s", i, BufferKindName(buffer.kind), buffer.name,
                          TypeToString(buffer.dtype, buffer.shape));
    if (buffer.kind != BufferKind::kState) absl::StrAppend(&text, "  @", buffer.offset);
    if (buffer.alias_of >= 0) absl::StrAppend(&text, "  = b", buffer.alias_of);
    absl::StrAppend(&text, "\n");
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    absl::StrAppendFormat(&text, "  s%-3d ", i);
    absl::StrAppend(&text, std::visit([](const auto& action) { return ActionToString(action); },
                                      steps[i].action));
    if (steps[i].guard >= 0) absl::StrAppend(&text, "  guard=b", steps[i].guard);
    absl::StrAppend(&text, "\n");
  }
  for (const NamedBuffer& output : outputs) {
    absl::StrAppend(&text, "  return ", output.name, "=b", output.buffer, "\n");
  }
  return text;
}

absl::Status CheckProgram(const Program& program) { return Checker(program).Run(); }

}  // namespace duotone::runtime
