// The painter of cast policy `optimal`: decides which nodes read 16-bit operands, from nothing but
// the nodes' tones and their edges. Table-driven, in the manner of TensorFlow's
// auto_mixed_precision:
//
//   1 allow        every allow vertex becomes low
//   2 deny         spreads forward through clear and infer, up to the last infer of a chain
//   3 between      clear and infer on a path between two low vertices become low
//   4 follow       infer that reads a low vertex, and clear behind it, become low: epilogues of a
//   product 5 clear        clear next to a low vertex becomes low, in both directions
//
//   deny -> infer -> clear -> infer -> clear -> allow -> infer
//   D       D        D        D        low      low      low
//
// Each step is a sweep in topological order, or a closure, so the colours depend on the edges only
// and not on the order in which nodes were added; the work is linear in the edges. One thing is
// repeated: a vertex that would read two different 16-bit types is taken out (they promote to f32)
// and the rest is painted again.
#ifndef DUOTONE_PASSES_PAINT_H_
#define DUOTONE_PASSES_PAINT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "ir/op_def.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::passes {

enum class PaintRule : uint8_t {
  kUntouched,   // takes no part
  kNone,        // there is no allow vertex
  kAllow,       // step 1
  kDeny,        // step 2
  kDownstream,  // step 2; `via` leads to the deny vertex
  kBetween,     // step 3; `via` and `towards` lead to the low vertices
  kFollow,      // step 4; `via` leads to a low vertex
  kClear,       // steps 4 and 5; `via` is the low neighbour
  kAlone,       // clear or infer that none of the steps reached
  kMixed,       // would read two different 16-bit types; `via` is the one unlike its own
  kReaders,     // keeps_readers_low is set and a reader is not low; `via` is that reader
};

struct PaintVertex {
  struct Read {
    int from;         // index of the vertex that is read
    bool low_result;  // the result that is read is 16-bit if `from` is low
  };

  std::string_view name;             // breaks ties between equally near causes
  ir::Tone tone = ir::Tone::kFixed;  // kFixed: takes no part
  bool can_be_low = false;           // otherwise it only passes deny on
  bool keeps_readers_low = false;  // may be low only if all that reads it is: its value is clamped
  DType low_dtype = DType::kF16;   // low spreads between equal types only
  llvm::SmallVector<Read, 3> reads;  // of earlier vertices

  bool low = false;
  PaintRule rule = PaintRule::kUntouched;
  int via = -1;
  int towards = -1;
};

// Paints `vertices`, which are in topological order.
void Paint(std::vector<PaintVertex>& vertices);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_PAINT_H_
