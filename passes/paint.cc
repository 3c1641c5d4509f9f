#include "passes/paint.h"

#include <cstddef>

namespace duotone::passes {
namespace {

using ir::Tone;

class Painter {
 public:
  explicit Painter(std::vector<PaintVertex>& vertices)
      : vertices_(vertices), size_(static_cast<int>(vertices.size())), readers_(vertices.size()) {
    for (int i = 0; i < size_; ++i) {
      for (const PaintVertex::Read& read : vertices_[i].reads) {
        readers_[read.from].push_back({i, read.low_result});
      }
    }
  }

  void Run() {
    do {
      Reset();
      if (!PaintAllow()) return;
      SpreadDeny();
      PaintBetween();
      PaintFollowing();
      PaintClear();
    } while (TakeOutMisfits());
  }

 private:
  struct Reader {
    int to;
    bool low_result;
  };

  static bool IsSoft(const PaintVertex& v) {
    return v.tone == Tone::kClear || v.tone == Tone::kInfer;
  }
  bool MayBecomeLow(const PaintVertex& v) const {
    return IsSoft(v) && v.can_be_low && !v.low && v.rule == PaintRule::kAlone;
  }
  // True if v may take its 16-bit type from the vertex it reads.
  bool Carries(const PaintVertex& v, const PaintVertex::Read& read) const {
    return read.low_result && vertices_[read.from].low_dtype == v.low_dtype;
  }
  void SetLow(int i, PaintRule rule, int via) {
    vertices_[i].low = true;
    vertices_[i].rule = rule;
    vertices_[i].via = via;
  }
  // The nearer cause in the order of names; equally good ones do not depend on the order of nodes.
  int Earlier(int a, int b) const {
    if (a < 0) return b;
    return vertices_[b].name < vertices_[a].name ? b : a;
  }

  void Reset() {
    for (PaintVertex& v : vertices_) {
      v.low = false;
      v.towards = -1;
      if (v.rule == PaintRule::kMixed || v.rule == PaintRule::kReaders) continue;
      v.rule = v.tone == Tone::kFixed ? PaintRule::kUntouched : PaintRule::kAlone;
      v.via = -1;
    }
  }

  bool PaintAllow() {
    bool any = false;
    for (int i = 0; i < size_; ++i) {
      if (vertices_[i].tone != Tone::kAllow || !vertices_[i].can_be_low) continue;
      SetLow(i, PaintRule::kAllow, -1);
      any = true;
    }
    if (any) return true;
    for (PaintVertex& v : vertices_) {
      if (v.rule == PaintRule::kAlone) v.rule = PaintRule::kNone;
    }
    return false;
  }

  void SpreadDeny() {
    // Deny passes clear only on its way to an infer or deny vertex: a clear vertex behind the last
    // of them stays free.
    std::vector<bool> on_way(vertices_.size());
    for (int i = size_ - 1; i >= 0; --i) {
      const PaintVertex& v = vertices_[i];
      if (v.tone == Tone::kDeny || v.tone == Tone::kInfer) on_way[i] = true;
      if (!on_way[i]) continue;
      for (const PaintVertex::Read& read : v.reads) {
        if (vertices_[read.from].tone == Tone::kClear) on_way[read.from] = true;
      }
    }
    denied_.assign(vertices_.size(), false);
    for (int i = 0; i < size_; ++i) {
      PaintVertex& v = vertices_[i];
      if (v.tone == Tone::kDeny) {
        denied_[i] = true;
        v.rule = PaintRule::kDeny;
        continue;
      }
      if (!IsSoft(v) || !on_way[i]) continue;
      for (const PaintVertex::Read& read : v.reads) {
        if (!denied_[read.from]) continue;
        denied_[i] = true;
        if (v.rule == PaintRule::kAlone) {
          v.rule = PaintRule::kDownstream;
          v.via = read.from;
        }
        break;
      }
    }
  }

  void PaintBetween() {
    // from[i]: the vertex through which i is reached from a low one; -1 if it is not.
    std::vector<int> from(vertices_.size(), -1);
    for (int i = 0; i < size_; ++i) {
      const PaintVertex& v = vertices_[i];
      if (!MayBecomeLow(v)) continue;
      for (const PaintVertex::Read& read : v.reads) {
        const bool reached = vertices_[read.from].low || from[read.from] >= 0;
        if (!reached || !Carries(v, read)) continue;
        from[i] = read.from;
        break;
      }
    }
    for (int i = size_ - 1; i >= 0; --i) {
      PaintVertex& v = vertices_[i];
      const bool is_allow = v.rule == PaintRule::kAllow;
      if (!is_allow && v.towards < 0) continue;
      if (!is_allow) SetLow(i, PaintRule::kBetween, from[i]);
      for (const PaintVertex::Read& read : v.reads) {
        if (from[read.from] < 0 || !Carries(v, read)) continue;
        int& towards = vertices_[read.from].towards;
        towards = Earlier(towards, i);
      }
    }
  }

  void PaintFollowing() {
    for (int i = 0; i < size_; ++i) {
      const PaintVertex& v = vertices_[i];
      if (!MayBecomeLow(v)) continue;
      int low = -1;
      bool reads_denied = false;
      for (const PaintVertex::Read& read : v.reads) {
        reads_denied |= denied_[read.from];
        if (low < 0 && vertices_[read.from].low && Carries(v, read)) low = read.from;
      }
      if (low < 0 || (v.tone == Tone::kInfer && reads_denied)) continue;
      SetLow(i, v.tone == Tone::kInfer ? PaintRule::kFollow : PaintRule::kClear, low);
    }
  }

  void PaintClear() {
    std::vector<int> frontier;
    for (int i = 0; i < size_; ++i) {
      if (vertices_[i].low) frontier.push_back(i);
    }
    std::vector<int> cause(vertices_.size(), -1);
    while (!frontier.empty()) {
      std::vector<int> next;
      auto offer = [&](int to, int by) {
        if (vertices_[to].tone != Tone::kClear || !MayBecomeLow(vertices_[to])) return;
        if (cause[to] < 0) next.push_back(to);
        cause[to] = Earlier(cause[to], by);
      };
      for (int i : frontier) {
        for (const PaintVertex::Read& read : vertices_[i].reads) {
          if (Carries(vertices_[i], read)) offer(read.from, i);
        }
        for (const Reader& reader : readers_[i]) {
          if (Carries(vertices_[reader.to], {i, reader.low_result})) offer(reader.to, i);
        }
      }
      for (int i : next) SetLow(i, PaintRule::kClear, cause[i]);
      frontier = std::move(next);
    }
  }

  // Finds low vertices that must not be; true if there are any, and painting starts again without
  // them.
  bool TakeOutMisfits() {
    bool any = false;
    auto take_out = [&](PaintVertex& v, PaintRule rule, int via) {
      v.can_be_low = false;
      v.rule = rule;
      v.via = via;
      any = true;
    };
    for (int i = 0; i < size_; ++i) {
      PaintVertex& v = vertices_[i];
      if (!v.low || v.rule == PaintRule::kAllow) continue;
      for (const PaintVertex::Read& read : v.reads) {
        const PaintVertex& from = vertices_[read.from];
        if (!from.low || !read.low_result || from.low_dtype == v.low_dtype) continue;
        take_out(v, PaintRule::kMixed, read.from);
        break;
      }
      if (!v.keeps_readers_low || !v.can_be_low) continue;
      int reader = -1;
      for (const Reader& r : readers_[i]) {
        const PaintVertex& to = vertices_[r.to];
        if (!to.low || to.low_dtype != v.low_dtype) reader = Earlier(reader, r.to);
      }
      if (reader >= 0) take_out(v, PaintRule::kReaders, reader);
    }
    return any;
  }

  std::vector<PaintVertex>& vertices_;
  int size_;
  std::vector<llvm::SmallVector<Reader, 4>> readers_;
  std::vector<bool> denied_;
};

}  // namespace

void Paint(std::vector<PaintVertex>& vertices) { Painter(vertices).Run(); }

}  // namespace duotone::passes
