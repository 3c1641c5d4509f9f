// Reads the instruction table (isa_table.cc) once, then matches instructions with it.
#include "runtime/emulator/isa.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"

namespace duotone::emulator {
namespace {

struct NamedList {
  std::string_view name;
  std::string_view words;
};
constexpr NamedList kLists[] = {
    {"<rnd>", "rn|rz|rm|rp"},
    {"<rnd-int>", "rni|rzi|rmi|rpi"},
    {"<int>", "u16|u32|u64|s16|s32|s64"},
    {"<wide-int>", "u32|s32|u64|s64"},
    {"<all-int>", "u8|u16|u32|u64|s8|s16|s32|s64"},
    {"<signed>", "s8|s16|s32|s64"},
    {"<unsigned>", "u8|u16|u32|u64"},
    {"<any16+>", "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"},
    {"<memory>", "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"},
    {"<bits>", "b16|b32|b64"},
    {"<cmp-signed>", "eq|ne|lt|le|gt|ge"},
    {"<cmp-unsigned>", "eq|ne|lt|le|gt|ge|lo|ls|hi|hs"},
    {"<cmp-float>", "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"},
    {"<shared>", "shared|shared::cta"},
    {"<space>", "const|global|local|param|param::entry|param::func|shared|shared::cta"},
    {"<store-space>", "global|local|param|param::func|shared|shared::cta"},
    {"<atom-space>", "global|shared|shared::cta"},
    {"<load-cache>", "ca|cg|cs|lu|cv"},
    {"<store-cache>", "wb|cg|cs|wt"},
    {"<level1>",
     "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"},
    {"<level2>", "L2::64B|L2::128B|L2::256B"},
    {"<evict2>", "L2::evict_last|L2::evict_normal"},
    {"<scope>", "cta|cluster|gpu|sys"},
    {"<sem>", "relaxed|acquire|release|acq_rel"},
};

using Apply = void (*)(Instruction&);
struct Word {
  std::string_view field;  // empty: the word has one meaning only
  std::string_view word;
  Apply apply;
  int since = 0;  // the first architecture that has it, in whatever instruction; as IsaRow::since
};

#define SET(field, value) [](Instruction& i) { i.field = value; }
#define NOTHING [](Instruction&) {}
constexpr Word kWords[] = {
    {"", "rn", SET(rounding, Rounding::kRn)},
    {"", "rz", SET(rounding, Rounding::kRz)},
    {"", "rm", SET(rounding, Rounding::kRm)},
    {"", "rp", SET(rounding, Rounding::kRp)},
    {"", "rna", SET(rounding, Rounding::kRna)},
    {"", "rni", SET(rounding, Rounding::kRni)},
    {"", "rzi", SET(rounding, Rounding::kRzi)},
    {"", "rmi", SET(rounding, Rounding::kRmi)},
    {"", "rpi", SET(rounding, Rounding::kRpi)},
    {"", "ftz", SET(ftz, true)},
    {"", "sat", SET(sat, true)},
    {"", "approx", SET(approx, true)},
    {"", "full", SET(full, true)},
    {"", "relu", SET(relu, true), 80},
    {"", "noftz", SET(noftz, true)},
    {"", "NaN", SET(nan, true), 80},
    {"", "cc", SET(carry_out, true)},
    {"", "wrap", SET(wrap, true)},
    {"", "clamp", SET(wrap, false)},
    {"", "shiftamt", SET(shiftamt, true)},
    {"", "to", SET(to, true)},
    {"", "nc", SET(nc, true)},
    {"", "volatile", SET(is_volatile, true)},
    {"", "relaxed", SET(is_volatile, true)},
    {"", "acquire", SET(is_volatile, true)},
    {"", "release", [](Instruction& i) { i.is_volatile = i.releases = true; }},
    {"", "acq_rel", [](Instruction& i) { i.is_volatile = i.releases = true; }},
    {"", "sc", SET(is_volatile, true)},
    {"", "uni", SET(uni, true)},
    {"", "sync", SET(sync, true)},
    {"", "aligned", SET(aligned, true)},
    {"", "trans", SET(trans, true)},
    {"", "lo", SET(product, Product::kLo)},
    {"", "hi", SET(product, Product::kHi)},
    {"", "wide", SET(product, Product::kWide)},
    {"", "v2", SET(vector, 2)},
    {"", "v4", SET(vector, 4)},
    {"", "x1", SET(vector, 1)},
    {"", "x2", SET(vector, 2)},
    {"", "x4", SET(vector, 4)},
    {"", "m16n8k4", SET(shape, (std::array<int, 3>{16, 8, 4}))},
    {"", "m16n8k8", SET(shape, (std::array<int, 3>{16, 8, 8})), 75},
    {"", "m16n8k16", SET(shape, (std::array<int, 3>{16, 8, 16})), 80},
    {"", "global", SET(space, Space::kGlobal)},
    {"", "shared", SET(space, Space::kShared)},
    {"", "shared::cta", SET(space, Space::kShared)},
    {"", "local", SET(space, Space::kLocal)},
    {"", "const", SET(space, Space::kConst)},
    {"", "param", SET(space, Space::kParam)},
    {"", "param::entry", SET(space, Space::kParam)},
    {"", "param::func", SET(space, Space::kParam)},
    {"", "cg", SET(bypass_l1, true)},
    {"", "cta", SET(is_narrow, true)},
    {"", "cluster", SET(is_narrow, true), 90},
    // These say how caches are to be used, or that an order reaches all blocks: the emulator has no
    // caches, and no order of other devices.
    {"", "weak", NOTHING},
    {"", "ca", NOTHING},
    {"", "cs", NOTHING},
    {"", "lu", NOTHING},
    {"", "cv", NOTHING},
    {"", "wb", NOTHING},
    {"", "wt", NOTHING},
    {"", "gpu", NOTHING},
    {"", "gl", NOTHING},
    {"", "sys", NOTHING},
    {"", "L1::evict_normal", NOTHING},
    {"", "L1::evict_unchanged", NOTHING},
    {"", "L1::evict_first", NOTHING},
    {"", "L1::evict_last", NOTHING},
    {"", "L1::no_allocate", NOTHING},
    {"", "L2::64B", NOTHING, 75},
    {"", "L2::128B", NOTHING, 75},
    {"", "L2::256B", NOTHING, 80},
    {"", "L2::evict_last", NOTHING, 80},
    {"", "L2::evict_normal", NOTHING, 80},
    // The only possible value.
    {"", "m8n8", NOTHING},
    {"", "row", NOTHING},
    {"", "col", NOTHING},
    {"cmp", "eq", SET(compare, Compare::kEq)},
    {"cmp", "ne", SET(compare, Compare::kNe)},
    {"cmp", "lt", SET(compare, Compare::kLt)},
    {"cmp", "le", SET(compare, Compare::kLe)},
    {"cmp", "gt", SET(compare, Compare::kGt)},
    {"cmp", "ge", SET(compare, Compare::kGe)},
    {"cmp", "lo", SET(compare, Compare::kLo)},
    {"cmp", "ls", SET(compare, Compare::kLs)},
    {"cmp", "hi", SET(compare, Compare::kHi)},
    {"cmp", "hs", SET(compare, Compare::kHs)},
    {"cmp", "equ", SET(compare, Compare::kEqu)},
    {"cmp", "neu", SET(compare, Compare::kNeu)},
    {"cmp", "ltu", SET(compare, Compare::kLtu)},
    {"cmp", "leu", SET(compare, Compare::kLeu)},
    {"cmp", "gtu", SET(compare, Compare::kGtu)},
    {"cmp", "geu", SET(compare, Compare::kGeu)},
    {"cmp", "num", SET(compare, Compare::kNum)},
    {"cmp", "nan", SET(compare, Compare::kNan)},
    {"bool", "and", SET(combine, BoolOp::kAnd)},
    {"bool", "or", SET(combine, BoolOp::kOr)},
    {"bool", "xor", SET(combine, BoolOp::kXor)},
    {"mode", "add", SET(mode, Mode::kAdd)},
    {"mode", "min", SET(mode, Mode::kMin)},
    {"mode", "max", SET(mode, Mode::kMax)},
    {"mode", "and", SET(mode, Mode::kAnd)},
    {"mode", "or", SET(mode, Mode::kOr)},
    {"mode", "xor", SET(mode, Mode::kXor)},
    {"mode", "exch", SET(mode, Mode::kExch)},
    {"mode", "cas", SET(mode, Mode::kCas)},
    {"mode", "inc", SET(mode, Mode::kInc)},
    {"mode", "dec", SET(mode, Mode::kDec)},
    {"mode", "popc", SET(mode, Mode::kPopc)},
    {"mode", "up", SET(mode, Mode::kUp)},
    {"mode", "down", SET(mode, Mode::kDown)},
    {"mode", "bfly", SET(mode, Mode::kBfly)},
    {"mode", "idx", SET(mode, Mode::kIdx)},
    {"mode", "all", SET(mode, Mode::kAll)},
    {"mode", "any", SET(mode, Mode::kAny)},
    {"mode", "uni", SET(mode, Mode::kUni)},
    {"mode", "ballot", SET(mode, Mode::kBallot)},
    {"mode", "sync", SET(mode, Mode::kSync)},
    {"mode", "arrive", SET(mode, Mode::kArrive)},
    {"mode", "l", SET(mode, Mode::kL)},
    {"mode", "r", SET(mode, Mode::kR)},
    {"mode", "f4e", SET(mode, Mode::kF4e)},
    {"mode", "b4e", SET(mode, Mode::kB4e)},
    {"mode", "rc8", SET(mode, Mode::kRc8)},
    {"mode", "ecl", SET(mode, Mode::kEcl)},
    {"mode", "ecr", SET(mode, Mode::kEcr)},
    {"mode", "rc16", SET(mode, Mode::kRc16)},
    {"mode", "finite", SET(mode, Mode::kFinite)},
    {"mode", "infinite", SET(mode, Mode::kInfinite)},
    {"mode", "number", SET(mode, Mode::kNumber)},
    {"mode", "notanumber", SET(mode, Mode::kNotANumber)},
    {"mode", "normal", SET(mode, Mode::kNormal)},
    {"mode", "subnormal", SET(mode, Mode::kSubnormal)},
};
#undef SET
#undef NOTHING

// The types that not every architecture has, in the same way.
constexpr std::pair<Type, int> kTypesSince[] = {
    {Type::kBf16, 80}, {Type::kBf16x2, 80}, {Type::kTf32, 80}};

int TypeSince(Type type) {
  for (const auto& [newer, since] : kTypesSince) {
    if (newer == type) return since;
  }
  return 0;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// One of the words that may stand in a place.
struct Choice {
  std::string_view word;
  Apply apply = nullptr;    // of Place::Kind::kWord
  Type type = Type::kNone;  // of kType and kSource
  int since = 0;
};

// One modifier's place in a form.
struct Place {
  enum class Kind : uint8_t { kWord, kType, kSource, kSameType, kSameSource };
  Kind kind = Kind::kWord;
  bool optional = false;
  std::vector<Choice> choices;
  int instead_of = -1;  // the place before it with the same words: one of the two is taken
};

struct Form {
  const IsaRow* row = nullptr;
  std::vector<Place> places;
  std::vector<OperandPattern> operands;
};

Choice FindWord(std::string_view field, std::string_view word) {
  if (field == "-") return {.word = word, .apply = [](Instruction&) {}};
  for (const Word& row : kWords) {
    if (row.field == field && row.word == word) {
      return {.word = word, .apply = row.apply, .since = row.since};
    }
  }
  DUOTONE_CHECK(false) << "the instruction table has no modifier '" << field << ":" << word << "'";
  return {};
}

Place ReadPlace(std::string_view text) {
  Place place;
  if (text.back() == '?') {
    place.optional = true;
    text.remove_suffix(1);
  }
  if (text == "=$" || text == "=%") {
    place.kind = text == "=$" ? Place::Kind::kSameType : Place::Kind::kSameSource;
    return place;
  }
  if (text[0] == '$' || text[0] == '%') {
    place.kind = text[0] == '$' ? Place::Kind::kType : Place::Kind::kSource;
    text.remove_prefix(1);
  }
  std::string_view field;
  // "shared::cta" is one word, "mode:add" is not.
  if (const size_t colon = text.find(':');
      colon != std::string_view::npos && text.substr(colon, 2) != "::") {
    field = text.substr(0, colon);
    text.remove_prefix(colon + 1);
  }
  const auto add = [&](std::string_view word) {
    if (place.kind == Place::Kind::kWord) {
      place.choices.push_back(FindWord(field, word));
    } else {
      const Type type = TypeFromName(word);
      DUOTONE_CHECK(type != Type::kNone) << "no type '" << word << "'";
      place.choices.push_back({.word = word, .type = type, .since = TypeSince(type)});
    }
  };
  for (std::string_view word : Split(text, '|')) {
    if (word[0] != '<') {
      add(word);
      continue;
    }
    const auto list = std::find_if(std::begin(kLists), std::end(kLists),
                                   [&](const NamedList& l) { return l.name == word; });
    DUOTONE_CHECK(list != std::end(kLists)) << "no list '" << word << "'";
    for (std::string_view member : Split(list->words, '|')) add(member);
  }
  return place;
}

OperandPattern ReadOperand(std::string_view text) {
  OperandPattern pattern;
  if (text == "[]") {
    pattern.shape = OperandPattern::Shape::kAddress;
    return pattern;
  }
  if (text == "label" || text == "count") {
    pattern.shape = text == "label" ? OperandPattern::Shape::kLabel : OperandPattern::Shape::kCount;
    return pattern;
  }
  std::string type;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '=':
        pattern.result = true;
        break;
      case '?':
        pattern.optional = true;
        break;
      case '!':
        pattern.negatable = true;
        break;
      case '+':
        pattern.wider = true;
        break;
      case '&':
        pattern.symbol = true;
        break;
      case '_':
        pattern.sink = true;
        break;
      case '/':
        pattern.parts = true;
        break;
      case '*':
        pattern.vector = true;
        break;
      case '|':
        pattern.bar = pattern.sink = true;
        break;
      case '~':
        pattern.absent = true;
        break;
      case '^':
        pattern.immediate = true;
        break;
      case '#':
        pattern.braces = i + 1 < text.size() ? text[++i] - '0' : -1;
        break;
      default:
        type += text[i];
    }
  }
  if (type == "T") {
    pattern.of = OperandPattern::Of::kType;
  } else if (type == "S") {
    pattern.of = OperandPattern::Of::kSource;
  } else if (type == "2T") {
    pattern.of = OperandPattern::Of::kTwiceType;
  } else {
    pattern.fixed = TypeFromName(type);
    DUOTONE_CHECK(pattern.fixed != Type::kNone) << "no operand type '" << text << "'";
  }
  return pattern;
}

Form ReadForm(const IsaRow& row) {
  Form form;
  form.row = &row;
  const std::vector<std::string_view> places = Split(row.modifiers, ' ');
  for (size_t i = 0; i < places.size(); ++i) {
    form.places.push_back(ReadPlace(places[i]));
    if (form.places[i].kind != Place::Kind::kWord) continue;
    const auto first = std::find(places.begin(), places.begin() + static_cast<int>(i), places[i]);
    const auto at = static_cast<int>(first - places.begin());
    if (at < static_cast<int>(i)) form.places[i].instead_of = at;
  }
  for (std::string_view text : Split(row.operands, ' ')) {
    form.operands.push_back(ReadOperand(text));
  }
  return form;
}

using Forms = std::unordered_map<std::string_view, std::vector<Form>>;
const Forms& AllForms() {
  static const Forms* const forms = [] {
    auto* made = new Forms;
    for (const IsaRow& row : IsaRows()) (*made)[row.word].push_back(ReadForm(row));
    return made;
  }();
  return *forms;
}

// Whether the word may stand in the place; then the instruction has it.
bool TakeWord(const Place& place, std::string_view word, IsaMatch& match) {
  Instruction& instruction = match.instruction;
  if (place.kind == Place::Kind::kSameType) return word == TypeName(instruction.type);
  if (place.kind == Place::Kind::kSameSource) return word == TypeName(instruction.source_type);
  for (const Choice& choice : place.choices) {
    if (choice.word != word) continue;
    if (place.kind == Place::Kind::kWord) choice.apply(instruction);
    if (place.kind == Place::Kind::kType) instruction.type = choice.type;
    if (place.kind == Place::Kind::kSource) instruction.source_type = choice.type;
    match.since = std::max(match.since, choice.since);
    return true;
  }
  return false;
}

// How many of the modifiers fit the form; all of them and true: it is this form.
std::pair<size_t, bool> Match(const Form& form, const std::vector<std::string_view>& modifiers,
                              IsaMatch& match) {
  match.since = form.row->since;
  std::vector<bool> taken(form.places.size());
  size_t at = 0;
  for (size_t i = 0; i < form.places.size(); ++i) {
    const Place& place = form.places[i];
    const bool open = place.instead_of < 0 || !taken[static_cast<size_t>(place.instead_of)];
    if (open && at < modifiers.size() && TakeWord(place, modifiers[at], match)) {
      taken[i] = true;
      ++at;
    } else if (!place.optional) {
      return {at, false};
    }
  }
  return {at, at == modifiers.size()};
}

std::string PlaceText(const Place& place) {
  if (place.kind == Place::Kind::kSameType) return ".(as the first)";
  if (place.kind == Place::Kind::kSameSource) return ".(as the second)";
  const auto append = [](std::string* out, const Choice& choice) {
    out->append(".").append(choice.word);
  };
  const std::string joined = absl::StrJoin(place.choices, ",", append);
  if (place.optional) return absl::StrCat("{", joined, "}");
  return place.choices.size() == 1 ? joined : absl::StrCat("[", joined, "]");
}

// The first architecture that has the form with the oldest of its modifiers and types.
int FormSince(const Form& form) {
  int since = form.row->since;
  for (const Place& place : form.places) {
    if (place.optional || place.choices.empty()) continue;
    const auto oldest =
        std::min_element(place.choices.begin(), place.choices.end(),
                         [](const Choice& a, const Choice& b) { return a.since < b.since; });
    since = std::max(since, oldest->since);
  }
  return since;
}

std::string FormText(const Form& form) {
  std::string text(form.row->word);
  for (const Place& place : form.places) text += PlaceText(place);
  return text;
}

// "d, [a], b" of a row: what stands where.
std::string OperandsText(const Form& form) {
  if (form.row->op == Op::kCall) return "{(results), }function{, (arguments)}";
  std::string text;
  char next_name = 'a';
  for (const OperandPattern& pattern : form.operands) {
    if (pattern.absent) continue;
    const std::string name(1, pattern.bar ? 'p' : pattern.result ? 'd' : next_name++);
    std::string operand = name;
    if (pattern.shape == OperandPattern::Shape::kAddress) operand = absl::StrCat("[", name, "]");
    if (pattern.shape == OperandPattern::Shape::kLabel) operand = absl::StrCat("label");
    if (pattern.negatable) operand = absl::StrCat("{!}", name);
    if (pattern.vector || pattern.braces != 0) operand = absl::StrCat(name, "...");
    const char* const between = text.empty() ? "" : pattern.bar ? "|" : ", ";
    if (pattern.bar || pattern.optional) {
      absl::StrAppend(&text, "{", between, operand, "}");
    } else {
      absl::StrAppend(&text, between, operand);
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<IsaMatch> MatchIsa(std::string_view words) {
  std::vector<std::string_view> modifiers;
  const size_t dot = std::min(words.find('.'), words.size());
  const std::string_view first = words.substr(0, dot);
  for (size_t at = dot; at < words.size();) {
    const size_t end = std::min(words.find('.', at + 1), words.size());
    modifiers.push_back(words.substr(at + 1, end - at - 1));
    at = end;
  }
  const auto found = AllForms().find(first);
  if (found == AllForms().end()) {
    return Unimplemented("there is no instruction '%s' in the emulator", first);
  }
  size_t furthest = 0;
  for (const Form& form : found->second) {
    IsaMatch match;
    match.instruction.op = form.row->op;
    const auto [taken, whole] = Match(form, modifiers, match);
    if (whole) {
      const int bytes = TypeBytes(match.instruction.type) * match.instruction.vector;
      if ((first == "ld" || first == "st") && bytes > 16) {
        return Unimplemented("a vector of %d bytes; the emulator has those of at most 16", bytes);
      }
      match.operands = &form.operands;
      for (const OperandPattern& pattern : form.operands) {
        match.instruction.results += pattern.result;
      }
      // bar is barrier.aligned.
      if (first == "bar" && match.instruction.op == Op::kBar) match.instruction.aligned = true;
      return match;
    }
    furthest = std::max(furthest, taken);
  }
  std::vector<std::string> known;
  for (const Form& form : found->second) {
    IsaMatch ignored;
    if (Match(form, modifiers, ignored).first == furthest) known.push_back(FormText(form));
  }
  // A sentence, not a page.
  while (known.size() > 1 && absl::StrJoin(known, " and ").size() > 200) known.pop_back();
  const std::string what =
      furthest < modifiers.size()
          ? absl::StrFormat("'.%s' is not understood there", modifiers[furthest])
          : std::string("something is missing at its end");
  return Unimplemented("the emulator has no such form of %s: %s; it knows %s", first, what,
                       absl::StrJoin(known, " and "));
}

Type OperandType(const OperandPattern& pattern, const Instruction& instruction) {
  switch (pattern.of) {
    case OperandPattern::Of::kFixed:
      return pattern.fixed;
    case OperandPattern::Of::kType:
      return instruction.type;
    case OperandPattern::Of::kSource:
      return instruction.source_type;
    case OperandPattern::Of::kTwiceType:
      break;
  }
  switch (instruction.type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    default:
      return Type::kS64;
  }
}

std::vector<std::string> SampleWords(const IsaRow& row) {
  const Form form = ReadForm(row);
  size_t count = 1;
  for (const Place& place : form.places) {
    count = std::max(count, place.choices.size() + (place.optional ? 1 : 0));
  }
  std::vector<std::string> samples;
  for (size_t sample = 0; sample < count; ++sample) {
    std::string text(row.word);
    std::string_view type, source;
    std::vector<bool> taken(form.places.size());
    for (size_t i = 0; i < form.places.size(); ++i) {
      const Place& place = form.places[i];
      std::string_view word;
      if (place.kind == Place::Kind::kSameType) {
        word = type;
      } else if (place.kind == Place::Kind::kSameSource) {
        word = source;
      } else {
        const bool again = place.instead_of >= 0;
        if (again && taken[static_cast<size_t>(place.instead_of)]) continue;
        // The first of the two places is empty where the second begins with its words.
        const size_t choice =
            (sample + (again ? 1 : 0)) % (place.choices.size() + (place.optional ? 1 : 0));
        if (choice == place.choices.size()) continue;
        word = place.choices[choice].word;
        if (place.kind == Place::Kind::kType) type = word;
        if (place.kind == Place::Kind::kSource) source = word;
      }
      taken[i] = true;
      text.append(".").append(word);
    }
    samples.push_back(std::move(text));
  }
  return samples;
}

std::string InstructionListMarkdown() {
  std::string text =
      "Alternatives stand in `[ ]`, what may be left out in `{ }`. The last column is the first "
      "architecture that has the\nform; where it is empty, all have it.";
  std::map<int, std::vector<std::string>> newer;
  for (const auto& [type, since] : kTypesSince) {
    newer[since].push_back(absl::StrFormat("`.%s`", TypeName(type)));
  }
  for (const Word& word : kWords) {
    if (word.since > 0) newer[word.since].push_back(absl::StrFormat("`.%s`", word.word));
  }
  for (const auto& [since, names] : newer) {
    absl::StrAppendFormat(&text, "\nNone before sm_%d has %s.", since, absl::StrJoin(names, ", "));
  }
  text += "\n\n| Instruction | Operands | From |\n|---|---|---|\n";
  std::vector<std::string_view> words;
  for (const auto& [word, forms] : AllForms()) words.push_back(word);
  std::sort(words.begin(), words.end());
  for (std::string_view word : words) {
    for (const Form& form : AllForms().at(word)) {
      absl::StrAppend(&text, "| `", FormText(form), "` | ");
      const std::string operands = OperandsText(form);
      absl::StrAppend(&text, operands.empty() ? "" : absl::StrCat("`", operands, "` "), "|");
      const int since = FormSince(form);
      absl::StrAppend(&text, since == 0 ? "" : absl::StrCat(" sm_", since), " |\n");
    }
  }
  return text;
}

}  // namespace duotone::emulator
