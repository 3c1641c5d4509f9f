// Text from graphs: one function per kind of field, none per op. The grammar is in docs/ir.md.
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/hash.h"
#include "ir/initializer.h"
#include "ir/lexer.h"
#include "ir/text.h"

namespace duotone::ir {
namespace {

// The shortest decimal that reads back as the same number: "784", "0.1", "1e-05", "inf", "-nan".
std::string ShortestText(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  DUOTONE_CHECK(error == std::errc()) << value;
  return std::string(buffer, end);
}

// The same, but never to be taken for an integer: "784.0".
std::string FloatText(double value) {
  std::string text = ShortestText(value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string ValueText(Value value) {
  return value ? absl::StrCat("%", QuoteUnlessIdentifier(value.name())) : "%\"<none>\"";
}

std::string FieldText(bool value, const Node&) { return value ? "true" : "false"; }
std::string FieldText(int64_t value, const Node&) { return absl::StrCat(value); }
std::string FieldText(double value, const Node&) { return FloatText(value); }
std::string FieldText(DType value, const Node&) { return std::string(DTypeName(value)); }
std::string FieldText(const std::optional<DType>& value, const Node&) {
  return std::string(value ? DTypeName(*value) : "none");
}
std::string FieldText(const std::string& value, const Node&) { return Quote(value); }
std::string FieldText(const Dim& value, const Node&) { return value.ToString(); }
std::string FieldText(const Shape& value, const Node&) { return ToString(value); }

template <typename T, typename Fn>
std::string ListText(const T& values, Fn text_of) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", text_of(values[i]));
  }
  return text + "]";
}

std::string FieldText(const Ints& values, const Node&) {
  return ListText(values, [](int64_t value) { return absl::StrCat(value); });
}

struct LiteralElementText {
  bool is_bool;
  std::string operator()(double value) const { return FloatText(value); }
  std::string operator()(int64_t value) const {
    if (is_bool && (value == 0 || value == 1)) return value == 1 ? "true" : "false";
    return absl::StrCat(value);
  }
};

std::string FieldText(const Literal& literal, const Node& node) {
  const LiteralElementText text_of{node.type().dtype == DType::kBool};
  return std::visit(
      [&](const auto& values) {
        return values.size() == 1 ? text_of(values[0]) : ListText(values, text_of);
      },
      literal.values);
}

// Fields that stand behind the colon, as the node's type.
std::string FieldText(const ResultType&, const Node&) { return ""; }
std::string FieldText(const ResultShape&, const Node&) { return ""; }

// ", axes=[1], keep_dims=true": every field whose text is not its default's.
std::string AttrsText(const Node& node) {
  llvm::SmallVector<std::string, 8> defaults;
  ForEachField(DefaultAttrs(node.def().attrs), [&](std::string_view, const auto& value) {
    defaults.push_back(FieldText(value, node));
  });
  std::string text;
  size_t i = 0;
  ForEachField(node.attrs(), [&](std::string_view name, const auto& value) {
    const std::string value_text = FieldText(value, node);
    if (value_text != defaults[i++])
      absl::StrAppend(&text, ", ", std::string(name), "=", value_text);
  });
  return text;
}

// ` {scope="fc1", loc="mlp.cc:14"}`, or nothing.
std::string BracesText(const Node& node, const PrintOptions& options) {
  if (!options.attributes) return "";
  std::string text;
  const auto add = [&](std::string_view name, std::string_view value) {
    absl::StrAppendFormat(&text, "%s%s=%s", text.empty() ? "" : ", ", name, value);
  };
  for (const auto& [name, member] : kInfoStrings) {
    const std::string& value = node.info().*member;
    if (!value.empty()) add(name, Quote(value));
  }
  if (node.info().region != Region::kNone) add("region", RegionName(node.info().region));
  if (node.id() != Fnv1a(node.name())) add("id", absl::StrCat(node.id()));
  return text.empty() ? "" : absl::StrCat(" {", text, "}");
}

std::string CommentText(const Node& node, const PrintOptions& options) {
  if (!options.annotate) return "";
  std::string text = options.annotate(node);
  for (char& c : text) {
    if (c == '\n' || c == '\r' || c == '\0') c = ' ';
  }
  return text.empty() ? "" : absl::StrCat("  // ", text);
}

std::string InitializerText(const Initializer& init) {
  std::string args;
  if (!init.source.empty()) args = absl::StrCat("%", QuoteUnlessIdentifier(init.source));
  for (const auto& [name, value] : init.args) {
    absl::StrAppend(&args, args.empty() ? "" : ", ", name, "=", ShortestText(value));
  }
  return absl::StrCat(init.kind, "(", args, ")");
}

std::string StateText(const StateEntry& entry, const PrintOptions& options) {
  std::string text = absl::StrFormat("%s %%%s: %s = %s", StateKindName(entry.kind),
                                     QuoteUnlessIdentifier(entry.name), entry.type.ToString(),
                                     InitializerText(entry.init));
  if (options.attributes && !entry.loc.empty()) {
    absl::StrAppend(&text, " {loc=", Quote(entry.loc), "}");
  }
  return text;
}

std::string UpdateText(const Update& update) {
  std::string text = absl::StrFormat(
      "update %%%s = %s", QuoteUnlessIdentifier(update.entry ? update.entry->name : std::string()),
      ValueText(update.next));
  if (update.guard) absl::StrAppend(&text, " guard=", ValueText(update.guard));
  return text;
}

// The outputs of a graph have names; those of a body are told apart by position.
std::string ReturnText(const Graph& graph, bool named) {
  std::string text = "return";
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Output& output = graph.outputs()[i];
    absl::StrAppend(&text, i == 0 ? " " : ", ",
                    named ? absl::StrCat(QuoteUnlessIdentifier(output.name), "=") : "",
                    ValueText(output.value));
  }
  return text;
}

// "(%x: f32[4], %w: f32[4])"
std::string InputsText(const Graph& graph, const PrintOptions& options) {
  std::string text = "(";
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Node& input = *graph.inputs()[i];
    absl::StrAppend(&text, i == 0 ? "" : ", ", "%", QuoteUnlessIdentifier(input.name()), ": ",
                    input.type().ToString(), BracesText(input, options));
  }
  return text + ")";
}

void AppendNode(std::string* out, const Node& node, const PrintOptions& options,
                const std::string& indent);

// The lines between a graph's braces.
void AppendLines(std::string* out, const Graph& graph, bool named_outputs,
                 const PrintOptions& options, const std::string& indent) {
  for (const auto& node : graph.nodes()) {
    AppendNode(out, *node, options, indent);
    *out += "\n";
  }
  for (const Update& update : graph.updates()) {
    absl::StrAppend(out, indent, UpdateText(update), "\n");
  }
  absl::StrAppend(out, indent, ReturnText(graph, named_outputs), "\n");
}

void AppendGraph(std::string* out, const Graph& graph, const PrintOptions& options,
                 const std::string& indent) {
  absl::StrAppend(out, indent, "graph @", QuoteUnlessIdentifier(graph.name()),
                  InputsText(graph, options), " {\n");
  AppendLines(out, graph, true, options, indent + "  ");
  absl::StrAppend(out, indent, "}\n");
}

void AppendNode(std::string* out, const Node& node, const PrintOptions& options,
                const std::string& indent) {
  std::string names, operands, types;
  for (int i = 0; i < node.result_count(); ++i) {
    const char* comma = i == 0 ? "" : ", ";
    absl::StrAppend(&names, comma, "%", QuoteUnlessIdentifier(node.name(i)));
    absl::StrAppend(&types, comma, node.type(i).ToString());
  }
  for (Value operand : node.operands()) {
    absl::StrAppend(&operands, operands.empty() ? "" : ", ", ValueText(operand));
  }
  absl::StrAppendFormat(out, "%s%s = %s(%s)%s : %s%s", indent, names, node.def().name, operands,
                        AttrsText(node), types, BracesText(node, options));
  if (node.body() == nullptr) {
    *out += CommentText(node, options);
    return;
  }
  absl::StrAppend(out, " body", InputsText(*node.body(), options), " {", CommentText(node, options),
                  "\n");
  AppendLines(out, *node.body(), false, options, indent + "  ");
  absl::StrAppend(out, indent, "}");
}

}  // namespace

std::string PrintNode(const Node& node, const PrintOptions& options) {
  std::string text;
  AppendNode(&text, node, options, "");
  return text;
}

std::string Print(const Graph& graph, const PrintOptions& options) {
  std::string text;
  AppendGraph(&text, graph, options, "");
  return text;
}

std::string Print(const Module& module, const PrintOptions& options) {
  std::string text = absl::StrCat("module @", QuoteUnlessIdentifier(module.name()), " {\n");
  for (const auto& entry : module.state()) {
    absl::StrAppend(&text, "  ", StateText(*entry, options), "\n");
  }
  bool first = module.state().empty();
  for (const auto& graph : module.graphs()) {
    if (!std::exchange(first, false)) text += "\n";
    AppendGraph(&text, *graph, options, "  ");
  }
  return text + "}\n";
}

}  // namespace duotone::ir
