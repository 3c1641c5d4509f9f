// Every expression is kept in one form: a number plus numbers times atoms, where an atom is a
// variable, a quotient or a remainder. Numbers that a divisor divides are taken out of quotients
// and remainders, as is a remainder that cannot carry:
//
//   (70*q + v) / 64    ->  q + (6*q + v) / 64
//   (8*q + v) / 64     ->  q / 8              v < 8
//   (x / 4) / 8        ->  x / 32
//   (x % 32) / 8       ->  (x / 8) % 4
//   (x % 32) % 8       ->  x % 8
//   8*(x / 8) + x % 8  ->  x
//
// All rules hold for negative values too, with floor division.
#include "codegen/index.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace duotone::codegen {
namespace {

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t FloorMod(int64_t a, int64_t b) { return a - FloorDiv(a, b) * b; }

std::string Number(int64_t value) {
  const bool small =
      value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
  return small ? absl::StrCat(value) : absl::StrCat(value, "LL");
}

}  // namespace

struct Index::Atom {
  enum class Kind { kVariable, kQuotient, kRemainder };
  Kind kind = Kind::kVariable;
  std::string name;   // kVariable
  Index operand = 0;  // the others
  int64_t divisor = 1;
  int64_t min = 0;
  int64_t max = 0;
};

struct Index::Term {
  std::shared_ptr<const Atom> atom;
  int64_t factor = 1;
};

struct Index::Sum {
  std::vector<Term> terms;  // in the order of Compare; factors are not 0
  int64_t constant = 0;
  int64_t min = 0;
  int64_t max = 0;
};

struct Index::Split {
  Index base;
  int64_t factor = 1;
  Index rest;
};

Index::Index(int64_t value) : sum_(std::make_shared<Sum>(Sum{{}, value, value, value})) {}

Index Index::Variable(std::string name, int64_t limit) {
  if (limit <= 1) return 0;
  auto atom = std::make_shared<Atom>();
  atom->name = std::move(name);
  atom->max = limit - 1;
  return FromAtom(std::move(atom));
}

Index Index::FromAtom(std::shared_ptr<const Atom> atom) {
  std::vector<Term> terms;
  terms.push_back({std::move(atom), 1});
  return FromTerms(std::move(terms), 0);
}

int Index::Compare(const Atom& a, const Atom& b) {
  if (&a == &b) return 0;
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (a.kind == Atom::Kind::kVariable) return a.name.compare(b.name);
  if (a.divisor != b.divisor) return a.divisor < b.divisor ? -1 : 1;
  return Compare(a.operand, b.operand);
}

int Index::Compare(const Index& a, const Index& b) {
  if (a.sum_ == b.sum_) return 0;
  const Sum& x = *a.sum_;
  const Sum& y = *b.sum_;
  if (x.terms.size() != y.terms.size()) return x.terms.size() < y.terms.size() ? -1 : 1;
  for (size_t i = 0; i < x.terms.size(); ++i) {
    if (int order = Compare(*x.terms[i].atom, *y.terms[i].atom)) return order;
    if (x.terms[i].factor != y.terms[i].factor) {
      return x.terms[i].factor < y.terms[i].factor ? -1 : 1;
    }
  }
  return x.constant < y.constant ? -1 : x.constant > y.constant ? 1 : 0;
}

bool operator==(const Index& a, const Index& b) { return Index::Compare(a, b) == 0; }
bool operator<(const Index& a, const Index& b) { return Index::Compare(a, b) < 0; }

// Finds  c*(x % a) + c*a*(x / a)              ->  c*x
//        c*(x % a) + c*a*((m + x / a) % b)    ->  c*((a*m + x) % (a*b))
// where quotients are single atoms (what a divides has been taken out of both).
bool Index::MergeOnce(std::vector<Term>& terms, int64_t& constant) {
  for (size_t i = 0; i < terms.size(); ++i) {
    const Term low = terms[i];
    if (low.atom->kind != Atom::Kind::kRemainder) continue;
    const int64_t a = low.atom->divisor;
    const Index quotient = Quotient(low.atom->operand, a);
    for (size_t j = 0; j < terms.size(); ++j) {
      const Term high = terms[j];
      if (high.factor != low.factor * a || high.atom->kind == Atom::Kind::kVariable) continue;
      Index merged = 0;
      if (FromAtom(high.atom) == quotient) {
        merged = low.atom->operand;
      } else if (high.atom->kind == Atom::Kind::kRemainder) {
        const Index m = high.atom->operand + quotient * -1;
        if (m.sum_->terms.size() >= high.atom->operand.sum_->terms.size()) continue;
        if (quotient.constant()) continue;
        merged = Remainder(m * a + low.atom->operand, a * high.atom->divisor);
      } else {
        continue;
      }
      terms.erase(terms.begin() + static_cast<ptrdiff_t>(std::max(i, j)));
      terms.erase(terms.begin() + static_cast<ptrdiff_t>(std::min(i, j)));
      for (const Term& term : merged.sum_->terms) {
        terms.push_back({term.atom, term.factor * low.factor});
      }
      constant += merged.sum_->constant * low.factor;
      return true;
    }
  }
  return false;
}

Index Index::FromTerms(std::vector<Term> terms, int64_t constant) {
  std::vector<Term> merged;
  do {
    std::stable_sort(terms.begin(), terms.end(),
                     [](const Term& a, const Term& b) { return Compare(*a.atom, *b.atom) < 0; });
    merged.clear();
    for (const Term& term : terms) {
      if (!merged.empty() && Compare(*merged.back().atom, *term.atom) == 0) {
        merged.back().factor += term.factor;
      } else {
        merged.push_back(term);
      }
    }
    std::erase_if(merged, [](const Term& term) { return term.factor == 0; });
    terms = merged;
  } while (terms.size() > 1 && MergeOnce(terms, constant));
  auto sum = std::make_shared<Sum>(Sum{std::move(terms), constant, constant, constant});
  for (const Term& term : sum->terms) {
    sum->min += term.factor * (term.factor > 0 ? term.atom->min : term.atom->max);
    sum->max += term.factor * (term.factor > 0 ? term.atom->max : term.atom->min);
  }
  return Index(std::shared_ptr<const Sum>(std::move(sum)));
}

Index Index::operator+(const Index& other) const {
  std::vector<Term> terms = sum_->terms;
  terms.insert(terms.end(), other.sum_->terms.begin(), other.sum_->terms.end());
  return FromTerms(std::move(terms), sum_->constant + other.sum_->constant);
}

Index Index::operator*(int64_t factor) const {
  if (factor == 1) return *this;
  std::vector<Term> terms = sum_->terms;
  for (Term& term : terms) term.factor *= factor;
  return FromTerms(std::move(terms), sum_->constant * factor);
}

std::pair<Index, Index> Index::Reduce(int64_t divisor) const {
  std::vector<Term> kept;
  std::vector<Term> taken;
  for (const Term& term : sum_->terms) {
    kept.push_back({term.atom, FloorMod(term.factor, divisor)});
    taken.push_back({term.atom, FloorDiv(term.factor, divisor)});
  }
  return {FromTerms(std::move(kept), FloorMod(sum_->constant, divisor)),
          FromTerms(std::move(taken), FloorDiv(sum_->constant, divisor))};
}

std::optional<Index::Split> Index::SplitOff(int64_t divisor) const {
  // Greatest common divisors of the divisor and some of the factors, the greatest first.
  std::vector<int64_t> candidates;
  for (const Term& term : sum_->terms) candidates.push_back(std::gcd(term.factor, divisor));
  std::sort(candidates.rbegin(), candidates.rend());
  int64_t common = 0;
  for (size_t i = 0, n = candidates.size(); i < n; ++i) {
    common = std::gcd(common, candidates[i]);
    candidates.push_back(common);
  }
  std::sort(candidates.rbegin(), candidates.rend());
  for (int64_t factor : candidates) {
    if (factor <= 1) break;
    Split split;
    split.factor = factor;
    std::vector<Term> base;
    std::vector<Term> rest;
    for (const Term& term : sum_->terms) {
      if (term.factor % factor == 0) {
        base.push_back({term.atom, term.factor / factor});
      } else {
        rest.push_back(term);
      }
    }
    split.base = FromTerms(std::move(base), FloorDiv(sum_->constant, factor));
    split.rest = FromTerms(std::move(rest), FloorMod(sum_->constant, factor));
    if (split.rest.min() >= 0 && split.rest.max() < factor) return split;
  }
  return std::nullopt;
}

Index Index::Quotient(const Index& value, int64_t divisor) {
  const auto [kept, taken] = value.Reduce(divisor);
  if (kept.min() >= 0 && kept.max() < divisor) return taken;
  if (auto split = kept.SplitOff(divisor)) {
    return taken + Quotient(split->base, divisor / split->factor);
  }
  const std::vector<Term>& terms = kept.sum_->terms;
  if (terms.size() == 1 && terms[0].factor == 1) {
    const Atom& atom = *terms[0].atom;
    if (atom.kind == Atom::Kind::kQuotient) {
      return taken + Quotient(atom.operand + Index(kept.sum_->constant * atom.divisor),
                              divisor * atom.divisor);
    }
    if (atom.kind == Atom::Kind::kRemainder && kept.sum_->constant == 0 &&
        atom.divisor % divisor == 0) {
      return taken + Remainder(Quotient(atom.operand, divisor), atom.divisor / divisor);
    }
  }
  auto atom = std::make_shared<Atom>();
  atom->kind = Atom::Kind::kQuotient;
  atom->operand = kept;
  atom->divisor = divisor;
  atom->min = FloorDiv(kept.min(), divisor);
  atom->max = FloorDiv(kept.max(), divisor);
  return taken + FromAtom(std::move(atom));
}

Index Index::Remainder(const Index& value, int64_t divisor) {
  Index kept = value.Reduce(divisor).first;
  // c*(x % m) and c*x differ by a multiple of c*m.
  for (bool changed = true; changed;) {
    changed = false;
    for (const Term& term : kept.sum_->terms) {
      if (term.atom->kind != Atom::Kind::kRemainder ||
          term.factor * term.atom->divisor % divisor != 0) {
        continue;
      }
      kept = kept + FromAtom(term.atom) * -term.factor + term.atom->operand * term.factor;
      kept = kept.Reduce(divisor).first;
      changed = true;
      break;
    }
  }
  if (kept.min() >= 0 && kept.max() < divisor) return kept;
  if (auto split = kept.SplitOff(divisor)) {
    return Remainder(split->base, divisor / split->factor) * split->factor + split->rest;
  }
  auto atom = std::make_shared<Atom>();
  atom->kind = Atom::Kind::kRemainder;
  atom->operand = kept;
  atom->divisor = divisor;
  atom->max = divisor - 1;
  return FromAtom(std::move(atom));
}

Index Index::operator/(int64_t divisor) const {
  DUOTONE_CHECK(divisor > 0) << "divisor " << divisor;
  return divisor == 1 ? *this : Quotient(*this, divisor);
}

Index Index::operator%(int64_t divisor) const {
  DUOTONE_CHECK(divisor > 0) << "divisor " << divisor;
  return divisor == 1 ? Index(0) : Remainder(*this, divisor);
}

int64_t Index::min() const { return sum_->min; }
int64_t Index::max() const { return sum_->max; }

std::optional<int64_t> Index::constant() const {
  if (!sum_->terms.empty()) return std::nullopt;
  return sum_->constant;
}

int64_t Index::offset() const { return sum_->constant; }

int64_t Index::divisor() const {
  int64_t common = sum_->constant;
  for (const Term& term : sum_->terms) {
    const Atom& atom = *term.atom;
    const int64_t own = atom.kind == Atom::Kind::kRemainder
                            ? std::gcd(atom.operand.divisor(), atom.divisor)
                            : int64_t{1};
    common = std::gcd(common, term.factor * own);
  }
  return common;
}

bool Index::Contains(const Index& variable) const {
  if (variable.sum_->terms.empty()) return false;
  const Atom& wanted = *variable.sum_->terms[0].atom;
  return std::any_of(sum_->terms.begin(), sum_->terms.end(), [&](const Term& term) {
    return term.atom->kind == Atom::Kind::kVariable ? Compare(*term.atom, wanted) == 0
                                                    : term.atom->operand.Contains(variable);
  });
}

Index Index::Replace(const Index& variable, const Index& value) const {
  if (!Contains(variable)) return *this;
  Index result = sum_->constant;
  for (const Term& term : sum_->terms) {
    Index atom = 0;
    switch (term.atom->kind) {
      case Atom::Kind::kVariable:
        atom = FromAtom(term.atom) == variable ? value : FromAtom(term.atom);
        break;
      case Atom::Kind::kQuotient:
        atom = term.atom->operand.Replace(variable, value) / term.atom->divisor;
        break;
      case Atom::Kind::kRemainder:
        atom = term.atom->operand.Replace(variable, value) % term.atom->divisor;
        break;
    }
    result = result + atom * term.factor;
  }
  return result;
}

int64_t Index::Evaluate(const std::function<int64_t(const std::string& name)>& value_of) const {
  int64_t result = sum_->constant;
  for (const Term& term : sum_->terms) {
    const Atom& atom = *term.atom;
    int64_t value = 0;
    switch (atom.kind) {
      case Atom::Kind::kVariable:
        value = value_of(atom.name);
        break;
      case Atom::Kind::kQuotient:
        value = FloorDiv(atom.operand.Evaluate(value_of), atom.divisor);
        break;
      case Atom::Kind::kRemainder:
        value = FloorMod(atom.operand.Evaluate(value_of), atom.divisor);
        break;
    }
    result += term.factor * value;
  }
  return result;
}

std::optional<Index::Linear> Index::SplitBy(const Index& variable) const {
  if (!Contains(variable)) return Linear{*this, 0};
  const Atom& wanted = *variable.sum_->terms[0].atom;
  std::vector<Term> base;
  int64_t stride = 0;
  for (const Term& term : sum_->terms) {
    if (Compare(*term.atom, wanted) == 0) {
      stride = term.factor;
    } else if (FromAtom(term.atom).Contains(variable)) {
      return std::nullopt;
    } else {
      base.push_back(term);
    }
  }
  return Linear{FromTerms(std::move(base), sum_->constant), stride};
}

std::string Index::ToString() const {
  std::vector<Term> terms = sum_->terms;
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& a, const Term& b) { return a.factor > b.factor; });
  std::string text;
  for (const Term& term : terms) {
    const Atom& atom = *term.atom;
    std::string part = atom.name;
    if (atom.kind != Atom::Kind::kVariable) {
      const Sum& operand = *atom.operand.sum_;
      const bool product = operand.terms.size() == 1 && operand.constant == 0;
      const std::string inner = atom.operand.ToString();
      part = absl::StrCat(product ? inner : absl::StrCat("(", inner, ")"),
                          atom.kind == Atom::Kind::kQuotient ? " / " : " % ", Number(atom.divisor));
    }
    const int64_t factor = term.factor < 0 && !text.empty() ? -term.factor : term.factor;
    if (!text.empty()) absl::StrAppend(&text, term.factor < 0 ? " - " : " + ");
    if (factor == 1) {
      absl::StrAppend(&text, part);
    } else if (atom.kind == Atom::Kind::kVariable) {
      absl::StrAppend(&text, Number(factor), " * ", part);
    } else {
      absl::StrAppend(&text, Number(factor), " * (", part, ")");
    }
  }
  const int64_t constant = sum_->constant;
  if (text.empty()) return Number(constant);
  if (constant > 0) absl::StrAppend(&text, " + ", Number(constant));
  if (constant < 0) absl::StrAppend(&text, " - ", Number(-constant));
  return text;
}

Index Linearise(llvm::ArrayRef<Index> at, llvm::ArrayRef<int64_t> shape) {
  DUOTONE_CHECK(at.size() == shape.size()) << at.size() << " coordinates, " << shape.size();
  Index position = 0;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;  // its only coordinate is 0
    position = position + at[i] * stride;
    stride *= std::max<int64_t>(1, shape[i]);
  }
  return position;
}

Coordinates Delinearise(const Index& position, llvm::ArrayRef<int64_t> shape) {
  Coordinates at(shape.size(), Index(0));
  Index rest = position;
  // The outermost axis that is not of size 1 takes all that is left.
  size_t outermost = 0;
  while (outermost < shape.size() && shape[outermost] == 1) ++outermost;
  for (size_t i = shape.size(); i-- > outermost;) {
    if (i == outermost) {
      at[i] = rest;
      break;
    }
    if (shape[i] <= 1) continue;
    at[i] = rest % shape[i];
    rest = rest / shape[i];
  }
  return at;
}

std::string Bounds::ToString() const {
  // Numbers stand on the right: `q - 2 >= 0` is `q >= 2`.
  const int64_t added = index.offset();
  const Index left = index - added;
  const std::string text = left.ToString();
  const std::string above = absl::StrCat(text, " >= ", Number(low - added));
  const std::string below = absl::StrCat(text, " < ", Number(high - added));
  const bool low_holds = index.min() >= low;
  const bool high_holds = index.max() < high;
  if (low_holds) return high_holds ? "" : below;
  return high_holds ? above : absl::StrCat(above, " && ", below);
}

}  // namespace duotone::codegen
