#include "samples/models.h"

#include <cmath>
#include <string>

namespace duotone::samples {
namespace {

// A fully connected layer with the initial values of torch.nn.Linear: both uniform on
// +-1/sqrt(inputs).
Value Dense(GraphBuilder& b, std::string_view name, const Value& x, int inputs, int outputs) {
  Scope scope(b, name);
  const Initializer init = Uniform(1 / std::sqrt(double(inputs)));
  Value w = b.Param("w", F32({inputs, outputs}), init);
  Value bias = b.Param("b", F32({outputs}), init);
  return Linear(x, w, bias);
}

Value Norm(GraphBuilder& b, std::string_view name, const Value& x, int width) {
  Scope scope(b, name);
  Value gain = b.Param("g", F32({width}), Ones());
  Value bias = b.Param("b", F32({width}), Zeros());
  return LayerNorm(x, gain, bias);
}

// Causal self-attention: of matmul, select and softmax.
Value Attention(GraphBuilder& b, const Value& x, const GptOptions& o) {
  Scope scope(b, "attn");
  const int head_width = o.width / o.heads;
  Value qkv = Dense(b, "qkv", x, o.width, 3 * o.width);
  qkv = Reshape(qkv, {"B", o.context, 3, o.heads, head_width});
  qkv = Transpose(qkv, {2, 0, 3, 1, 4});  // q, k, v: [B, heads, context, head_width]
  auto part = [&](int i) {
    return Reshape(Slice(qkv, 0, i, i + 1), {"B", o.heads, o.context, head_width});
  };
  Value q = part(0), k = part(1), v = part(2);
  Value scores = MatMul(q, k, {.transpose_b = true}) * (1 / std::sqrt(double(head_width)));
  Value row = b.Iota(I32({o.context, o.context}), 0);
  Value column = b.Iota(I32({o.context, o.context}), 1);
  scores = Select(column <= row, scores, -INFINITY);
  Value mixed = MatMul(Softmax(scores), v);
  mixed = Reshape(Transpose(mixed, {0, 2, 1, 3}), {"B", o.context, o.width});
  return Dense(b, "proj", mixed, o.width, o.width);
}

Value FeedForward(GraphBuilder& b, const Value& x, const GptOptions& o) {
  Scope scope(b, "mlp");
  Value up = Gelu(Dense(b, "up", x, o.width, 4 * o.width));
  return Dense(b, "down", up, 4 * o.width, o.width);
}

}  // namespace

absl::StatusOr<Model> Mlp(const std::vector<int>& widths) {
  GraphBuilder b("mlp");
  Value x = b.Input("x", F32({"B", widths.front()}));
  Value y = b.Input("y", I32({"B"}));
  Value h = x;
  for (size_t i = 1; i < widths.size(); ++i) {
    h = Dense(b, "fc" + std::to_string(i), h, widths[i - 1], widths[i]);
    if (i + 1 < widths.size()) h = Relu(h);
  }
  Value logits = Named(h, "logits");
  b.Output("loss", CrossEntropy(logits, y));
  b.Output("logits", logits);
  return std::move(b).Build();
}

absl::StatusOr<Model> Gpt(const GptOptions& o) {
  GraphBuilder b("gpt");
  Value x = b.Input("x", I32({"B", o.context}));
  Value y = b.Input("y", I32({"B", o.context}));
  Value tokens = b.Param("tok", F32({o.vocabulary, o.width}), Normal(1));
  Value positions = b.Param("pos", F32({o.context, o.width}), Normal(1));
  Value h = Embedding(tokens, x) + positions;
  for (int i = 0; i < o.layers; ++i) {
    Scope block(b, "block" + std::to_string(i));
    h = h + Attention(b, Norm(b, "n1", h, o.width), o);
    h = h + FeedForward(b, Norm(b, "n2", h, o.width), o);
  }
  h = Norm(b, "norm", h, o.width);
  Value logits = Named(Dense(b, "head", h, o.width, o.vocabulary), "logits");
  b.Output("loss", CrossEntropy(logits, y));
  b.Output("logits", logits);
  return std::move(b).Build();
}

absl::Span<const NamedModel> AllModels() {
  static constexpr NamedModel kModels[] = {
      {"mlp", [] { return Mlp(); }},
      {"gpt", [] { return Gpt(); }},
      {"gpt_small", [] { return Gpt({.width = 64, .layers = 2, .context = 64}); }},
  };
  return kModels;
}

}  // namespace duotone::samples
