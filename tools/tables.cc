// duotone devices | ops | passes | docs: what this build can do, and the tables behind the
// generated pages of docs/.
#include <cstdio>
#include <memory>
#include <thread>

#include "base/file.h"
#include "base/status.h"
#include "ir/op_docs.h"
#include "passes/pass_docs.h"
#include "tools/command.h"
#include "tools/model_flags.h"

namespace duotone::tools {
namespace {

struct Page {
  const char* file;
  std::string (*text)();
};
// The generated pages, which a test compares with the tables.
constexpr Page kPages[] = {{"ops.md", ir::OpsMarkdown}, {"passes.md", passes::PassesMarkdown}};

absl::Status WritePages(const std::string& dir) {
  for (const Page& page : kPages) {
    const std::string path = dir + "/" + page.file;
    DUOTONE_RETURN_IF_ERROR(WriteFileAtomically(path, page.text()));
    std::printf("%s\n", path.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

std::function<absl::Status()> DeclareDevices(CLI::App&) {
  return [] {
    std::printf(
        "cpu        %u hardware threads; matrix products by oneDNN, the rest by reference "
        "evaluation\n",
        std::thread::hardware_concurrency());
    std::printf("reference  one thread, every node by the reference evaluator\n");
    return absl::OkStatus();
  };
}

std::function<absl::Status()> DeclareOps(CLI::App&) {
  return [] { return WriteResult("", ir::OpsMarkdown()); };
}

std::function<absl::Status()> DeclarePasses(CLI::App&) {
  return [] { return WriteResult("", passes::PassesMarkdown()); };
}

std::function<absl::Status()> DeclareDocs(CLI::App& app) {
  auto dir = std::make_shared<std::string>("docs");
  app.add_option("DIR", *dir, "The folder to write to")->capture_default_str();
  return [dir] { return WritePages(*dir); };
}

}  // namespace duotone::tools
