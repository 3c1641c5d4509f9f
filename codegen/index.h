// Integer expressions over loop variables with known ranges: where an element of a tensor lies, and
// what of it can be known before the kernel runs. Immutable and shared; building one simplifies it.
//
//   q in [0, 512), v in [0, 8):   (8*q + v) / 64      ->  q / 8
//                                 (8*q + v) % 64      ->  8*(q % 8) + v
//                                 ((8*q + v) % 64) is 8*(q % 8) + 1*v: a vector of 8 at a multiple
//                                 of 8
#ifndef DUOTONE_CODEGEN_INDEX_H_
#define DUOTONE_CODEGEN_INDEX_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::codegen {

class Index {
 public:
  Index(int64_t value = 0);  // NOLINT: numbers are expressions
  // A variable with values in [0, limit). Its text is its name; equal names are equal variables.
  static Index Variable(std::string name, int64_t limit);

  Index operator+(const Index& other) const;
  Index operator-(int64_t value) const { return *this + Index(-value); }
  Index operator*(int64_t factor) const;
  // Floor division and the remainder in [0, divisor), for divisor > 0. Where a value is negative,
  // the C++ text may differ: such elements lie outside the bounds of a padded read.
  Index operator/(int64_t divisor) const;
  Index operator%(int64_t divisor) const;

  // Bounds, both included; not always the tightest.
  int64_t min() const;
  int64_t max() const;
  std::optional<int64_t> constant() const;
  // The number that is added to its terms: 3 of 8*q + 3.
  int64_t offset() const;
  // The greatest number known to divide every value; 0 for the constant 0.
  int64_t divisor() const;
  bool Contains(const Index& variable) const;
  // This with `value` in place of the variable.
  Index Replace(const Index& variable, const Index& value) const;
  // Its value where each variable has the value that `value_of` gives for its name.
  int64_t Evaluate(const std::function<int64_t(const std::string& name)>& value_of) const;

  // This as base + stride * variable with `base` free of the variable, if it is linear in it.
  struct Linear;
  std::optional<Linear> SplitBy(const Index& variable) const;

  // C++ text with few parentheses; 64-bit literals where needed.
  std::string ToString() const;
  friend bool operator==(const Index& a, const Index& b);
  // A total order that does not depend on addresses, for maps.
  friend bool operator<(const Index& a, const Index& b);

 private:
  struct Atom;  // a variable, a quotient or a remainder
  struct Term;  // an atom times a number
  struct Sum;   // terms and a number
  explicit Index(std::shared_ptr<const Sum> sum) : sum_(std::move(sum)) {}
  static Index FromAtom(std::shared_ptr<const Atom> atom);
  static Index FromTerms(std::vector<Term> terms, int64_t constant);
  static Index Quotient(const Index& value, int64_t divisor);
  static Index Remainder(const Index& value, int64_t divisor);
  static int Compare(const Atom& a, const Atom& b);
  static int Compare(const Index& a, const Index& b);
  // Quotient and remainder of one expression in `terms` put together again.
  static bool MergeOnce(std::vector<Term>& terms, int64_t& constant);
  // base * factor + rest with 0 <= rest < factor, for the greatest such factor > 1 of `divisor`.
  struct Split;
  std::optional<Split> SplitOff(int64_t divisor) const;
  // This with every number reduced modulo `divisor`, and what was taken away, divided by it.
  std::pair<Index, Index> Reduce(int64_t divisor) const;
  std::shared_ptr<const Sum> sum_;
};

struct Index::Linear {
  Index base;
  int64_t stride = 0;
};

// Where an element lies in a tensor: one index per axis.
using Coordinates = llvm::SmallVector<Index, 6>;

// The row-major position of `at` in a tensor of this shape, and back. ToCoordinates puts 0 on axes
// of size 1.
Index Linearise(llvm::ArrayRef<Index> at, llvm::ArrayRef<int64_t> shape);
Coordinates Delinearise(const Index& position, llvm::ArrayRef<int64_t> shape);

// low <= index < high, for the bounds of padded reads; parts that always hold are left out of the
// text, which is "" if all do.
struct Bounds {
  Index index;
  int64_t low = 0;
  int64_t high = 0;
  bool always() const { return index.min() >= low && index.max() < high; }
  std::string ToString() const;
};

}  // namespace duotone::codegen

#endif  // DUOTONE_CODEGEN_INDEX_H_
