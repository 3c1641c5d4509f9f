// The arguments of a kernel as words of a command line, for `duotone run-ptx`:
//
//   i32:5  u64:0xff  f32:1.5  f16:2  bf16:-1    a value of that type
//   hex:00112233                                bytes, of a parameter that is a struct
//   buf:f32[1024]=uniform:out=y.bin             the address of a buffer of 1024 f32
#ifndef DUOTONE_TOOLS_PTX_ARGUMENTS_H_
#define DUOTONE_TOOLS_PTX_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/emulator/ptx.h"

namespace duotone::tools {

struct PtxArgument {
  std::string text;                           // as given
  bool is_buffer = false;                     // the parameter is an address
  std::vector<uint8_t> bytes;                 // of the value, or what the buffer begins with
  emulator::Type type = emulator::Type::kU8;  // of the value or of the buffer's elements
  int64_t elements = 0;
  bool is_initialised = true;  // else the kernel must write before it reads
  std::string output;          // the file for what the buffer holds afterwards; may be empty

  int64_t buffer_bytes() const { return elements * emulator::TypeBytes(type); }
};

// Splits at commas that stand outside of [ ]; spaces around an argument do not count.
std::vector<std::string> SplitArguments(std::string_view text);

// `seed` and `number` decide what uniform numbers are.
absl::StatusOr<PtxArgument> ParsePtxArgument(const std::string& text, uint64_t seed, int number);

// One line for each kind, for --help.
std::string_view PtxArgumentHelp();

// An element as text: "1.5", "-3".
std::string ElementText(emulator::Type type, const uint8_t* bytes);

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_PTX_ARGUMENTS_H_
