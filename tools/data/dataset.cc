#include "tools/data/dataset.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace duotone::tools {
namespace {

// Where Debian's package puts the files.
constexpr std::string_view kFashionMnistDir = "/usr/share/datasets/fashion-mnist";

struct SpecKind {
  std::string_view prefix;  // "csv:"; without a colon the whole spec
  std::string_view doc;
};

constexpr SpecKind kSpecs[] = {
    {"fashion-mnist", "the images of the package dataset-fashion-mnist, or of --data-dir"},
    {"idx:", "idx:DIR, a folder with IDX files in MNIST's layout, gzip-compressed or not"},
    {"csv:",
     "csv:FILE, numbers with an integer label in the last column; the last tenth is held out"},
    {"npz:", "npz:FILE, NumPy arrays x and y, or x_train, y_train, x_test, y_test"},
    {"text:", "text:FILE, next-character prediction; the last tenth is held out"},
};

absl::StatusOr<Dataset> LoadFashionMnist(const DataOptions& options) {
  const std::string dir =
      options.data_dir.empty() ? std::string(kFashionMnistDir) : options.data_dir;
  if (!std::filesystem::is_directory(dir)) {
    return NotFound(
        "fashion-mnist: there is no folder %s; install the package dataset-fashion-mnist or give "
        "--data-dir",
        dir);
  }
  return LoadIdx(dir);
}

}  // namespace

absl::StatusOr<Dataset> LoadDataset(std::string_view spec, const DataOptions& options) {
  const size_t colon = spec.find(':');
  const std::string_view kind = spec.substr(0, colon);
  const std::string rest(colon == std::string_view::npos ? "" : spec.substr(colon + 1));
  if (spec == "fashion-mnist") return LoadFashionMnist(options);
  if (colon != std::string_view::npos && rest.empty()) {
    return InvalidArgument("--data=%s: the path after the colon is missing", spec);
  }
  if (colon != std::string_view::npos) {
    if (kind == "idx") return LoadIdx(rest);
    if (kind == "csv") return LoadCsv(rest);
    if (kind == "npz") return LoadNpz(rest);
    if (kind == "text") return LoadText(rest, options.window);
  }
  return InvalidArgument("--data=%s: unknown data set; known are\n%s", spec, DataSpecHelp());
}

std::string DataSpecHelp() {
  std::string help;
  for (const SpecKind& kind : kSpecs) {
    absl::StrAppend(&help, absl::StrFormat("  %-14s %s\n", kind.prefix, kind.doc));
  }
  return help;
}

absl::Status CountClasses(Dataset& dataset, std::string_view source) {
  auto scan = [&](const Part& part, std::string_view part_name) -> absl::Status {
    for (const Field& field : part.fields) {
      const auto* labels = std::get_if<std::vector<int32_t>>(&field.values);
      if (field.name != "y" || labels == nullptr) continue;
      for (size_t i = 0; i < labels->size(); ++i) {
        if ((*labels)[i] < 0) {
          return InvalidArgument("%s: label %d of %s row %d is negative", source, (*labels)[i],
                                 part_name, i);
        }
        dataset.classes = std::max<int64_t>(dataset.classes, int64_t{(*labels)[i]} + 1);
      }
    }
    return absl::OkStatus();
  };
  DUOTONE_RETURN_IF_ERROR(scan(dataset.train, "training"));
  return dataset.test ? scan(*dataset.test, "test") : absl::OkStatus();
}

}  // namespace duotone::tools
