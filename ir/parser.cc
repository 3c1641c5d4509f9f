// Graphs from text: recursive descent, one function per rule of the grammar in docs/ir.md, none per
// op.
//
// Nodes go through Graph::Add, so a text meets the same checks as the builder; what those cannot
// see (updates, outputs, state) the verifier checks at the end. Every error is one sentence with
// its place, the line and a caret.
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "ir/initializer.h"
#include "ir/lexer.h"
#include "ir/suggest.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace duotone::ir {
namespace {

using Kind = Token::Kind;

// More factors in one size than any chain of reshapes makes.
constexpr size_t kMaxFactors = 64;
constexpr size_t kMaxGraphs = 1024;
constexpr size_t kMaxState = 1 << 16;
// A broken file is told this many of its violations.
constexpr size_t kShownViolations = 20;

// How a message speaks of the token it met.
std::string Describe(const Token& token) {
  switch (token.kind) {
    case Kind::kEnd:
      return "the end of the text";
    case Kind::kError:
      return token.text;
    case Kind::kValue:
      return absl::StrFormat("'%%%s'", Shown(token.text));
    case Kind::kSymbol:
      return absl::StrFormat("'@%s'", Shown(token.text));
    case Kind::kString:
      return absl::StrFormat("the string \"%s\"", Shown(token.text));
    case Kind::kIdentifier:
    case Kind::kInteger:
    case Kind::kFloat:
    case Kind::kPunctuation:
      return absl::StrFormat("'%s'", Shown(token.text));
  }
  return "";
}

// "1 name", "2 names"
std::string Count(size_t count, std::string_view noun) {
  return absl::StrFormat("%d %s%s", count, noun, count == 1 ? "" : "s");
}

template <typename T>
std::optional<T> ToNumber(std::string_view text) {
  T value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
inline constexpr bool kIsResult = std::is_same_v<T, ResultType> || std::is_same_v<T, ResultShape>;

class Parser {
 public:
  Parser(std::string_view text, std::string_view source, const ParseLimits& limits)
      : text_(text), source_(source, text), limits_(limits), lexer_(text), token_(lexer_.Next()) {}

  absl::StatusOr<std::unique_ptr<Module>> Run();

 private:
  // Errors.
  template <typename... Args>
  absl::Status Error(size_t offset, const absl::FormatSpec<Args...>& format,
                     const Args&... args) const {
    return source_.Error(offset, absl::StrFormat(format, args...));
  }
  // The error that `expected` should stand where the next token is.
  absl::Status Unexpected(std::string_view expected) const;
  // The verifier's findings with their places in the text.
  absl::Status Check() const;
  // A status of Graph or Module, with its place in the text.
  absl::Status At(size_t offset, const absl::Status& status) const {
    return source_.Error(offset, std::string(status.message()));
  }

  // Tokens.
  Token Take() { return std::exchange(token_, lexer_.Next()); }
  bool TakeIf(char punctuation);
  absl::Status Expect(char punctuation, std::string_view where);
  absl::StatusOr<Token> Expect(Kind kind, std::string_view what);
  // Calls `item` for each part of a comma-separated list up to `close`, which is taken too.
  template <typename Item>
  absl::Status List(char close, std::string_view where, Item item);

  // Structure.
  absl::Status ParseModule();
  absl::Status ParseItem();
  absl::Status ParseState(StateKind kind);
  absl::StatusOr<Initializer> ParseInitializer();
  absl::Status ParseGraph();
  // The rest of a graph or body behind its name.
  absl::Status ParseInputsAndLines();
  absl::Status ParseBody(const OpDef& def, std::shared_ptr<const Graph>& body);
  bool InBody() const { return graph_->module() == nullptr; }
  absl::Status ParseInput();
  absl::Status ParseNode();
  absl::Status ParseResultTypes(llvm::SmallVectorImpl<Type>& types, std::vector<size_t>& offsets);
  absl::Status ParseBraces(NodeInfo& info, std::optional<uint64_t>* id);
  absl::Status ParseUpdate();
  absl::Status ParseReturn();
  // A value that is defined above or in the state table.
  absl::StatusOr<Value> ParseUse();
  absl::Status UnknownValue(const Token& name) const;
  // The offset of the definition of `name` further down in this graph.
  std::optional<size_t> FindLaterDefinition(std::string_view name) const;

  // Types and attributes.
  absl::StatusOr<Type> ParseType();
  absl::Status ParseAttr(const OpDef& def, Attrs& attrs, std::vector<std::string>& seen);
  absl::Status ParseValue(bool& value);
  absl::Status ParseValue(int64_t& value);
  absl::Status ParseValue(double& value);
  absl::Status ParseValue(DType& value);
  absl::Status ParseValue(std::optional<DType>& value);
  absl::Status ParseValue(std::string& value);
  absl::Status ParseValue(Region& value);
  absl::Status ParseValue(Dim& value);
  absl::Status ParseValue(Ints& values);
  absl::Status ParseValue(Shape& value);
  absl::Status ParseValue(Literal& value);
  absl::StatusOr<std::variant<int64_t, double>> ParseLiteralElement();

  std::string_view text_;
  SourceText source_;
  const ParseLimits& limits_;
  Lexer lexer_;
  Token token_;  // the next one
  // Offsets of what the verifier looks at, per graph.
  struct Places {
    llvm::DenseMap<const Node*, size_t> nodes;
    std::vector<size_t> updates;
    std::vector<size_t> outputs;
  };

  std::unique_ptr<Module> module_;
  llvm::DenseMap<const Graph*, Places> places_;
  Graph* graph_ = nullptr;  // the one being parsed
  size_t statement_ = 0;    // offset of the node being parsed
  size_t node_count_ = 0;
};

absl::Status Parser::Unexpected(std::string_view expected) const {
  if (token_.Is(Kind::kError)) return source_.Error(token_.offset, token_.text);
  return Error(token_.offset, "expected %s, found %s", expected, Describe(token_));
}

bool Parser::TakeIf(char punctuation) {
  if (!token_.Is(punctuation)) return false;
  Take();
  return true;
}

absl::Status Parser::Expect(char punctuation, std::string_view where) {
  if (TakeIf(punctuation)) return absl::OkStatus();
  return Unexpected(absl::StrFormat("'%c' %s", punctuation, where));
}

absl::StatusOr<Token> Parser::Expect(Kind kind, std::string_view what) {
  if (!token_.Is(kind)) return Unexpected(what);
  return Take();
}

template <typename Item>
absl::Status Parser::List(char close, std::string_view where, Item item) {
  if (TakeIf(close)) return absl::OkStatus();
  while (true) {
    DUOTONE_RETURN_IF_ERROR(item());
    if (TakeIf(close)) return absl::OkStatus();
    if (!TakeIf(',')) return Unexpected(absl::StrFormat("',' or '%c' %s", close, where));
  }
}

absl::StatusOr<std::unique_ptr<Module>> Parser::Run() {
  DUOTONE_RETURN_IF_ERROR(ParseModule());
  DUOTONE_RETURN_IF_ERROR(Check());
  return std::move(module_);
}

absl::Status Parser::ParseModule() {
  if (token_.Is(Kind::kEnd)) return Unexpected("a module or a graph");
  if (!token_.IsWord("module")) {
    module_ = std::make_unique<Module>("module");
    while (!token_.Is(Kind::kEnd)) DUOTONE_RETURN_IF_ERROR(ParseItem());
    return absl::OkStatus();
  }
  Take();
  DUOTONE_ASSIGN_OR_RETURN(Token name, Expect(Kind::kSymbol, "the module's name, like @mlp"));
  module_ = std::make_unique<Module>(name.text);
  DUOTONE_RETURN_IF_ERROR(Expect('{', "after the module's name"));
  while (!TakeIf('}')) DUOTONE_RETURN_IF_ERROR(ParseItem());
  if (!token_.Is(Kind::kEnd)) return Unexpected("the end of the text after the module");
  return absl::OkStatus();
}

absl::Status Parser::Check() const {
  const std::vector<Violation> violations = FindViolations(*module_);
  if (violations.empty()) return absl::OkStatus();
  std::vector<std::string> messages;
  for (const Violation& violation : llvm::ArrayRef(violations).take_front(kShownViolations)) {
    const Places& places = places_.find(violation.graph)->second;
    const size_t offset = violation.update >= 0   ? places.updates[violation.update]
                          : violation.output >= 0 ? places.outputs[violation.output]
                          : violation.node        ? places.nodes.lookup(violation.node)
                                                  : 0;
    const std::string sentence = absl::StrFormat("[%d] %s", violation.invariant, violation.message);
    messages.emplace_back(source_.Error(offset, sentence).message());
  }
  if (violations.size() > kShownViolations) {
    messages.push_back(
        absl::StrFormat("%s: and %d more", source_.name(), violations.size() - kShownViolations));
  }
  return InvalidArgument("%s", absl::StrJoin(messages, "\n"));
}

absl::Status Parser::ParseItem() {
  if (token_.IsWord("graph")) return ParseGraph();
  for (StateKind kind : {StateKind::kParam, StateKind::kState, StateKind::kDerived}) {
    if (token_.IsWord(StateKindName(kind))) return ParseState(kind);
  }
  return Unexpected("param, state, derived or graph");
}

absl::Status Parser::ParseState(StateKind kind) {
  Take();
  StateEntry entry{.kind = kind};
  DUOTONE_ASSIGN_OR_RETURN(Token name, Expect(Kind::kValue, "the state entry's name, like %w"));
  entry.name = name.text;
  DUOTONE_RETURN_IF_ERROR(Expect(':', "and a type after the name"));
  DUOTONE_ASSIGN_OR_RETURN(entry.type, ParseType());
  if (TakeIf('=')) {
    DUOTONE_ASSIGN_OR_RETURN(entry.init, ParseInitializer());
  }
  NodeInfo info;
  DUOTONE_RETURN_IF_ERROR(ParseBraces(info, nullptr));
  entry.loc = std::move(info.loc);
  if (module_->state().size() == kMaxState) {
    return Error(name.offset, "more than %d state entries", kMaxState);
  }
  absl::StatusOr<const StateEntry*> added = module_->AddState(std::move(entry));
  return added.ok() ? absl::OkStatus() : At(name.offset, added.status());
}

absl::StatusOr<Initializer> Parser::ParseInitializer() {
  DUOTONE_ASSIGN_OR_RETURN(Token kind, Expect(Kind::kIdentifier, "an initialiser, like zeros()"));
  Initializer init{.kind = kind.text};
  DUOTONE_RETURN_IF_ERROR(Expect('(', "after the initialiser's kind"));
  DUOTONE_RETURN_IF_ERROR(List(')', "of the initialiser", [&]() -> absl::Status {
    if (token_.Is(Kind::kValue) && init.source.empty()) {
      init.source = Take().text;
      return absl::OkStatus();
    }
    DUOTONE_ASSIGN_OR_RETURN(Token name, Expect(Kind::kIdentifier, "an argument, like fan_in=784"));
    DUOTONE_RETURN_IF_ERROR(Expect('=', "after the argument's name"));
    double value;
    DUOTONE_RETURN_IF_ERROR(ParseValue(value));
    init.args.emplace_back(name.text, value);
    return absl::OkStatus();
  }));
  return init;
}

absl::Status Parser::ParseGraph() {
  Take();
  DUOTONE_ASSIGN_OR_RETURN(Token name, Expect(Kind::kSymbol, "the graph's name, like @loss"));
  if (module_->graphs().size() == kMaxGraphs) {
    return Error(name.offset, "more than %d graphs", kMaxGraphs);
  }
  absl::StatusOr<Graph*> graph = module_->AddGraph(name.text);
  if (!graph.ok()) return At(name.offset, graph.status());
  graph_ = *graph;
  return ParseInputsAndLines();
}

absl::Status Parser::ParseInputsAndLines() {
  DUOTONE_RETURN_IF_ERROR(Expect('(', InBody() ? "after body" : "after the graph's name"));
  DUOTONE_RETURN_IF_ERROR(List(')', "in the list of inputs", [&] { return ParseInput(); }));
  DUOTONE_RETURN_IF_ERROR(Expect('{', "after the inputs"));
  while (!token_.IsWord("return")) {
    if (token_.Is(Kind::kValue)) {
      DUOTONE_RETURN_IF_ERROR(ParseNode());
    } else if (token_.IsWord("update")) {
      DUOTONE_RETURN_IF_ERROR(ParseUpdate());
    } else if (token_.Is('}')) {
      if (InBody()) return Error(token_.offset, "the body has no return");
      return Error(token_.offset, "graph @%s has no return", Shown(graph_->name()));
    } else {
      return Unexpected(InBody() ? "a node or return" : "a node, an update or return");
    }
  }
  DUOTONE_RETURN_IF_ERROR(ParseReturn());
  return Expect('}', "after return");
}

// body(%a: f32[4]) { %n = neg(%a) : f32[4] return %n }
absl::Status Parser::ParseBody(const OpDef& def, std::shared_ptr<const Graph>& body) {
  const Token word = Take();
  if (def.op != Op::kFusion) return Error(word.offset, "%s: only a fusion has a body", def.name);
  const auto graph = std::make_shared<Graph>(nullptr, "body");
  Graph* const outer = std::exchange(graph_, graph.get());
  const size_t statement = statement_;
  DUOTONE_RETURN_IF_ERROR(ParseInputsAndLines());
  graph_ = outer;
  statement_ = statement;
  body = graph;
  return absl::OkStatus();
}

absl::Status Parser::ParseInput() {
  DUOTONE_ASSIGN_OR_RETURN(Token name, Expect(Kind::kValue, "an input's name, like %x"));
  DUOTONE_RETURN_IF_ERROR(Expect(':', "and a type after the input's name"));
  DUOTONE_ASSIGN_OR_RETURN(Type type, ParseType());
  absl::StatusOr<Value> input = graph_->AddInput(name.text, std::move(type));
  if (!input.ok()) return At(name.offset, input.status());
  std::optional<uint64_t> id;
  DUOTONE_RETURN_IF_ERROR(ParseBraces(input->node->info(), &id));
  if (id) input->node->set_id(*id);
  places_[graph_].nodes[input->node] = name.offset;
  return absl::OkStatus();
}

// %a, %b = op(%x, %y), attr=value : f32[B, 4], f32[B] {scope="fc1"}, and the body of a fusion
absl::Status Parser::ParseNode() {
  statement_ = token_.offset;
  if (++node_count_ > limits_.max_nodes) {
    return Error(statement_, "more than %d nodes", limits_.max_nodes);
  }
  Graph::Spec spec;
  do {
    DUOTONE_ASSIGN_OR_RETURN(Token name, Expect(Kind::kValue, "a result's name, like %h"));
    spec.names.push_back(std::move(name.text));
  } while (TakeIf(','));
  DUOTONE_RETURN_IF_ERROR(Expect('=', "after the results' names"));

  DUOTONE_ASSIGN_OR_RETURN(Token op, Expect(Kind::kIdentifier, "an op, like matmul"));
  const std::optional<Op> known = OpFromName(op.text);
  if (!known) {
    return Error(op.offset, "unknown op '%s'%s", Shown(op.text),
                 DidYouMean(op.text, AllOps(), [](const OpDef& d) { return d.name; }));
  }
  const OpDef& def = DefOf(spec.op = *known);
  if (def.lower == Lower::kSource) {
    return Error(op.offset,
                 "%s is no op of a line: inputs stand behind the graph's name, state in the "
                 "module's table, and both are read by name",
                 def.name);
  }
  if (def.op == Op::kFusion && InBody()) {
    return Error(op.offset, "%s: a body holds no other one", def.name);
  }
  DUOTONE_RETURN_IF_ERROR(Expect('(', "after the op"));
  DUOTONE_RETURN_IF_ERROR(List(')', "in the list of operands", [&]() -> absl::Status {
    DUOTONE_ASSIGN_OR_RETURN(Value operand, ParseUse());
    spec.operands.push_back(operand);
    return absl::OkStatus();
  }));

  spec.attrs = DefaultAttrs(def.attrs);
  std::vector<std::string> seen;
  while (TakeIf(',')) DUOTONE_RETURN_IF_ERROR(ParseAttr(def, spec.attrs, seen));

  llvm::SmallVector<Type, 2> types;
  std::vector<size_t> type_offsets;
  DUOTONE_RETURN_IF_ERROR(ParseResultTypes(types, type_offsets));
  ForEachField(spec.attrs, [&](std::string_view, auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, ResultType>) value.type = types[0];
    if constexpr (std::is_same_v<T, ResultShape>) value.shape = types[0].shape;
    if constexpr (std::is_same_v<T, Literal>) {
      // Only here is it known whether an empty list holds integers.
      if (value.size() == 0 && !types[0].is_float()) value.values = std::vector<int64_t>();
    }
  });
  DUOTONE_RETURN_IF_ERROR(ParseBraces(spec.info, &spec.id));
  if (token_.IsWord("body")) {
    DUOTONE_RETURN_IF_ERROR(ParseBody(def, spec.body));
  }

  const size_t name_count = spec.names.size();
  if (types.size() != name_count) {
    return Error(type_offsets.back(), "%s: %s, but %s declared", def.name,
                 Count(name_count, "name"), Count(types.size(), "type"));
  }
  absl::StatusOr<Node*> node = graph_->Add(std::move(spec));
  if (!node.ok()) return At(op.offset, node.status());
  places_[graph_].nodes[*node] = statement_;
  if (static_cast<size_t>((*node)->result_count()) != name_count) {
    return Error(statement_, "%s: %s, but %s given", def.name,
                 Count((*node)->result_count(), "result"), Count(name_count, "name"));
  }
  for (size_t i = 0; i < name_count; ++i) {
    const Type& type = (*node)->type(i);
    if (type == types[i]) continue;
    return Error(type_offsets[i], "%s: the result%s is %s, but %s is declared", def.name,
                 name_count == 1 ? "" : absl::StrCat(" %", Shown((*node)->name(i))),
                 type.ToString(), types[i].ToString());
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseResultTypes(llvm::SmallVectorImpl<Type>& types,
                                      std::vector<size_t>& offsets) {
  DUOTONE_RETURN_IF_ERROR(Expect(':', "and the type of each result"));
  do {
    offsets.push_back(token_.offset);
    DUOTONE_ASSIGN_OR_RETURN(types.emplace_back(), ParseType());
  } while (TakeIf(','));
  return absl::OkStatus();
}

// {scope="fc1", loc="mlp.cc:14", region=off, id=7}; `id` is null where none may stand.
absl::Status Parser::ParseBraces(NodeInfo& info, std::optional<uint64_t>* id) {
  if (!TakeIf('{')) return absl::OkStatus();
  std::vector<std::string> seen;
  return List('}', "in the braces", [&]() -> absl::Status {
    DUOTONE_ASSIGN_OR_RETURN(Token key,
                             Expect(Kind::kIdentifier, "a field, like loc=\"mlp.cc:14\""));
    if (llvm::is_contained(seen, key.text))
      return Error(key.offset, "'%s' is given twice", key.text);
    DUOTONE_RETURN_IF_ERROR(Expect('=', "after the field's name"));
    seen.push_back(key.text);
    for (const auto& [name, member] : kInfoStrings) {
      if (key.text == name) return ParseValue(info.*member);
    }
    if (key.text == "region") return ParseValue(info.region);
    if (key.text != "id" || id == nullptr) {
      return Error(key.offset, "unknown field '%s' in braces%s", Shown(key.text),
                   DidYouMean(key.text, {"scope", "loc", "forward", "origin", "region", "id"}));
    }
    DUOTONE_ASSIGN_OR_RETURN(Token number, Expect(Kind::kInteger, "a number"));
    *id = ToNumber<uint64_t>(number.text);
    if (!*id)
      return Error(number.offset, "an id is a number from 0 to 2^64-1, not %s", Shown(number.text));
    return absl::OkStatus();
  });
}

absl::Status Parser::ParseUpdate() {
  statement_ = Take().offset;
  if (InBody()) return Error(statement_, "a body updates no state");
  DUOTONE_ASSIGN_OR_RETURN(Token target, Expect(Kind::kValue, "the state entry, like %w"));
  Update update{.entry = module_->FindState(target.text)};
  if (update.entry == nullptr) {
    return Error(target.offset, "update: %%%s is no state entry", Shown(target.text));
  }
  DUOTONE_RETURN_IF_ERROR(Expect('=', "after the state entry"));
  DUOTONE_ASSIGN_OR_RETURN(update.next, ParseUse());
  if (token_.IsWord("guard")) {
    Take();
    DUOTONE_RETURN_IF_ERROR(Expect('=', "after guard"));
    DUOTONE_ASSIGN_OR_RETURN(update.guard, ParseUse());
  }
  graph_->updates().push_back(update);
  places_[graph_].updates.push_back(statement_);
  return absl::OkStatus();
}

// return loss=%loss, "grad:w"=%gw, %logits
absl::Status Parser::ParseReturn() {
  statement_ = Take().offset;
  if (token_.Is('}')) return absl::OkStatus();
  do {
    Output output;
    places_[graph_].outputs.push_back(token_.offset);
    const bool named = token_.Is(Kind::kIdentifier) || token_.Is(Kind::kString);
    if (named) {
      output.name = Take().text;
      DUOTONE_RETURN_IF_ERROR(Expect('=', "after the output's name"));
    }
    DUOTONE_ASSIGN_OR_RETURN(output.value, ParseUse());
    if (!named) output.name = output.value.name();
    graph_->outputs().push_back(std::move(output));
  } while (TakeIf(','));
  return absl::OkStatus();
}

absl::StatusOr<Value> Parser::ParseUse() {
  DUOTONE_ASSIGN_OR_RETURN(Token name, Expect(Kind::kValue, "a value, like %h"));
  if (Value value = graph_->Find(name.text)) return value;
  if (const StateEntry* entry = module_->FindState(name.text)) {
    if (InBody()) {
      return Error(name.offset, "%%%s is a state entry; a body reads only its inputs",
                   Shown(name.text));
    }
    const Value read = graph_->ReadState(entry);
    places_[graph_].nodes[read.node] = name.offset;
    return read;
  }
  return UnknownValue(name);
}

absl::Status Parser::UnknownValue(const Token& name) const {
  if (std::optional<size_t> later = FindLaterDefinition(name.text)) {
    return Error(name.offset, "%%%s is used before its definition in line %d", Shown(name.text),
                 source_.LineOf(*later));
  }
  std::vector<std::string_view> names;
  for (const Node* input : graph_->inputs()) names.push_back(input->name());
  if (!InBody()) {
    for (const auto& entry : module_->state()) names.push_back(entry->name);
  }
  for (const auto& node : graph_->nodes()) {
    for (int i = 0; i < node->result_count(); ++i) names.push_back(node->name(i));
  }
  return Error(name.offset, "%%%s is not defined%s", Shown(name.text),
               DidYouMean(name.text, names));
}

std::optional<size_t> Parser::FindLaterDefinition(std::string_view name) const {
  Lexer lexer(text_, statement_);
  int depth = 0;
  bool result_names = true;  // between a statement's begin and its '='
  for (Token token = lexer.Next(); depth >= 0; token = lexer.Next()) {
    if (token.Is(Kind::kEnd) || token.Is(Kind::kError)) break;
    if (token.IsWord("return") && depth == 0) break;  // that of a body above stands deeper
    if (token.Is('(') || token.Is('[') || token.Is('{')) ++depth;
    if (token.Is(')') || token.Is(']') || token.Is('}')) --depth;
    if (depth != 0) continue;
    if (token.IsWord("update")) result_names = false;
    if (token.Is('=')) result_names = false;
    if (token.Is(':')) result_names = true;  // the types follow, and then the next statement
    if (result_names && token.Is(Kind::kValue) && token.text == name) return token.offset;
  }
  return std::nullopt;
}

absl::StatusOr<Type> Parser::ParseType() {
  Type type;
  DUOTONE_RETURN_IF_ERROR(ParseValue(type.dtype));
  if (!token_.Is('[')) return Unexpected("'[' and the sizes after the dtype");
  const size_t offset = token_.offset;
  DUOTONE_RETURN_IF_ERROR(ParseValue(type.shape));
  absl::StatusOr<Dim> count = ElementCount(type.shape);
  if (!count.ok()) return At(offset, count.status());
  return type;
}

absl::Status Parser::ParseAttr(const OpDef& def, Attrs& attrs, std::vector<std::string>& seen) {
  DUOTONE_ASSIGN_OR_RETURN(Token name, Expect(Kind::kIdentifier, "an attribute, like axis=1"));
  bool known = false;
  absl::Status status;
  std::vector<std::string_view> names;
  ForEachField(attrs, [&](std::string_view field, auto& value) {
    if constexpr (!kIsResult<std::decay_t<decltype(value)>>) {
      names.push_back(field);
      if (field != name.text) return;
      known = true;
      status = llvm::is_contained(seen, name.text)
                   ? Error(name.offset, "%s: '%s' is given twice", def.name, field)
                   : Expect('=', "after the attribute's name");
      if (status.ok()) status = ParseValue(value);
    }
  });
  if (!known) {
    return Error(name.offset, "%s has no attribute '%s'%s", def.name, Shown(name.text),
                 DidYouMean(name.text, names));
  }
  seen.push_back(name.text);
  return status;
}

absl::Status Parser::ParseValue(bool& value) {
  if (!token_.IsWord("true") && !token_.IsWord("false")) return Unexpected("true or false");
  value = Take().text == "true";
  return absl::OkStatus();
}

absl::Status Parser::ParseValue(int64_t& value) {
  DUOTONE_ASSIGN_OR_RETURN(Token number, Expect(Kind::kInteger, "an integer"));
  const std::optional<int64_t> parsed = ToNumber<int64_t>(number.text);
  if (!parsed)
    return Error(number.offset, "the integer %s does not fit in 64 bits", Shown(number.text));
  value = *parsed;
  return absl::OkStatus();
}

absl::Status Parser::ParseValue(double& value) {
  const bool is_number = token_.Is(Kind::kInteger) || token_.Is(Kind::kFloat) ||
                         token_.IsWord("inf") || token_.IsWord("nan");
  if (!is_number) return Unexpected("a number");
  const Token number = Take();
  const std::optional<double> parsed = ToNumber<double>(number.text);
  if (!parsed)
    return Error(number.offset, "the number %s does not fit in an f64", Shown(number.text));
  value = *parsed;
  return absl::OkStatus();
}

absl::Status Parser::ParseValue(DType& value) {
  DUOTONE_ASSIGN_OR_RETURN(Token name, Expect(Kind::kIdentifier, "a dtype, like f32"));
  const std::optional<DType> dtype = DTypeFromName(name.text);
  if (!dtype) {
    const auto name_of = [](const DTypeInfo& info) { return info.name; };
    return Error(name.offset, "unknown dtype '%s'%s; there are %s", Shown(name.text),
                 DidYouMean(name.text, kDTypes, name_of),
                 absl::StrJoin(kDTypes, ", ",
                               [](std::string* out, const DTypeInfo& info) { *out += info.name; }));
  }
  value = *dtype;
  return absl::OkStatus();
}

absl::Status Parser::ParseValue(std::optional<DType>& value) { return ParseValue(value.emplace()); }

absl::Status Parser::ParseValue(std::string& value) {
  DUOTONE_ASSIGN_OR_RETURN(Token token, Expect(Kind::kString, "a string in double quotes"));
  value = std::move(token.text);
  return absl::OkStatus();
}

absl::Status Parser::ParseValue(Region& value) {
  for (Region region : {Region::kOff, Region::kF16, Region::kBF16}) {
    if (!token_.IsWord(RegionName(region))) continue;
    Take();
    value = region;
    return absl::OkStatus();
  }
  return Unexpected("a region: off, f16 or bf16");
}

// 128, B, 2*B*T
absl::Status Parser::ParseValue(Dim& value) {
  value = 1;
  size_t factors = 0;
  do {
    const Token factor = token_;
    if (factor.Is(Kind::kInteger)) {
      const std::optional<int64_t> size = ToNumber<int64_t>(factor.text);
      if (!size || *size < 0 || *size > kMaxElements) {
        return Error(factor.offset, "a size is from 0 to 2^56, not %s", Shown(factor.text));
      }
    } else if (!factor.Is(Kind::kIdentifier)) {
      return Unexpected("a size: a number or a name, like B");
    }
    Take();
    const std::optional<Dim> product = value.Times(
        factor.Is(Kind::kInteger) ? Dim(*ToNumber<int64_t>(factor.text)) : Dim::Named(factor.text));
    if (!product) return Error(factor.offset, "the size is above 2^56");
    if (++factors > kMaxFactors)
      return Error(factor.offset, "a size of more than %d factors", kMaxFactors);
    value = *product;
  } while (TakeIf('*'));
  return absl::OkStatus();
}

absl::Status Parser::ParseValue(Ints& values) {
  DUOTONE_RETURN_IF_ERROR(Expect('[', "and integers"));
  values.clear();
  return List(']', "in the list of integers", [&]() -> absl::Status {
    if (values.size() == kMaxRank) {
      return Error(token_.offset, "more than %d integers, one per axis", kMaxRank);
    }
    return ParseValue(values.emplace_back());
  });
}

absl::Status Parser::ParseValue(Shape& value) {
  DUOTONE_RETURN_IF_ERROR(Expect('[', "and sizes"));
  value.clear();
  return List(']', "in the shape", [&]() -> absl::Status {
    if (value.size() == kMaxRank) return Error(token_.offset, "more than %d axes", kMaxRank);
    return ParseValue(value.emplace_back());
  });
}

absl::StatusOr<std::variant<int64_t, double>> Parser::ParseLiteralElement() {
  if (token_.IsWord("true") || token_.IsWord("false")) return int64_t{Take().text == "true"};
  if (token_.Is(Kind::kInteger)) {
    int64_t integer;
    DUOTONE_RETURN_IF_ERROR(ParseValue(integer));
    return integer;
  }
  double number;
  DUOTONE_RETURN_IF_ERROR(ParseValue(number));
  return number;
}

// 1.5, 7, true, [1, 2], [1.0, nan]: integers if all elements are.
absl::Status Parser::ParseValue(Literal& value) {
  const size_t offset = token_.offset;
  std::vector<std::variant<int64_t, double>> elements;
  const auto parse_element = [&]() -> absl::Status {
    if (elements.size() == limits_.max_literal_elements) {
      return Error(token_.offset, "a literal of more than %d elements",
                   limits_.max_literal_elements);
    }
    DUOTONE_ASSIGN_OR_RETURN(elements.emplace_back(), ParseLiteralElement());
    return absl::OkStatus();
  };
  if (TakeIf('[')) {
    DUOTONE_RETURN_IF_ERROR(List(']', "in the literal", parse_element));
  } else {
    DUOTONE_RETURN_IF_ERROR(parse_element());
  }
  const auto is_integer = [](const auto& element) { return element.index() == 0; };
  if (!elements.empty() && llvm::all_of(elements, is_integer)) {
    auto& integers = value.values.emplace<std::vector<int64_t>>();
    for (const auto& element : elements) integers.push_back(std::get<int64_t>(element));
    return absl::OkStatus();
  }
  if (llvm::any_of(elements, is_integer)) {
    return Error(offset,
                 "a literal holds integers or floating-point numbers (1.0, not 1), not both");
  }
  auto& numbers = value.values.emplace<std::vector<double>>();
  for (const auto& element : elements) numbers.push_back(std::get<double>(element));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Module>> Parse(std::string_view text, std::string_view source,
                                              const ParseLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return InvalidArgument("%s: %d bytes; a graph's text may have %d", source, text.size(),
                           limits.max_bytes);
  }
  DUOTONE_RETURN_IF_ERROR(SourceText(source, text).CheckEncoding());
  return Parser(text, source, limits).Run();
}

}  // namespace duotone::ir
