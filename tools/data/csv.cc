// Comma-separated numbers with an integer label in the last column. A first line that is not
// numeric is a header.
#include <charconv>
#include <cmath>

#include "base/status.h"
#include "tools/data/dataset.h"

namespace duotone::tools {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

bool ParseNumber(std::string_view text, double& value) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> Split(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const size_t comma = line.find(',');
    cells.push_back(Trim(line.substr(0, comma)));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

bool IsHeader(const std::vector<std::string_view>& cells) {
  double value;
  for (std::string_view cell : cells) {
    if (ParseNumber(cell, value)) return false;
  }
  return true;
}

struct Table {
  size_t columns = 0;
  std::vector<float> features;
  std::vector<int32_t> labels;
};

absl::Status AddRow(const std::vector<std::string_view>& cells, const std::string& path,
                    int64_t line, Table& table) {
  if (table.columns == 0) table.columns = cells.size();
  if (cells.size() != table.columns) {
    return InvalidArgument("%s:%d: %d columns, but the first row has %d", path, line, cells.size(),
                           table.columns);
  }
  if (cells.size() < 2) {
    return InvalidArgument("%s:%d: a row needs at least one feature and a label", path, line);
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    double value;
    if (!ParseNumber(cells[i], value)) {
      return InvalidArgument("%s:%d: column %d, '%s', is not a number", path, line, i + 1,
                             cells[i]);
    }
    const bool is_label = i + 1 == cells.size();
    if (!std::isfinite(static_cast<float>(value))) {
      return InvalidArgument("%s:%d: column %d is %s; data must be finite in f32", path, line,
                             i + 1, cells[i]);
    }
    if (!is_label) {
      table.features.push_back(static_cast<float>(value));
    } else if (value != std::floor(value) || value < 0 || value > 0x7ffffffe) {
      return InvalidArgument("%s:%d: label '%s' is not an integer of at least 0", path, line,
                             cells[i]);
    } else {
      table.labels.push_back(static_cast<int32_t>(value));
    }
  }
  return absl::OkStatus();
}

Part Rows(const Table& table, size_t begin, size_t end) {
  const size_t width = table.columns - 1;
  Part part{.rows = static_cast<int64_t>(end - begin)};
  part.fields.push_back({"x",
                         {static_cast<int64_t>(width)},
                         std::vector<float>(table.features.begin() + begin * width,
                                            table.features.begin() + end * width)});
  part.fields.push_back(
      {"y", {}, std::vector<int32_t>(table.labels.begin() + begin, table.labels.begin() + end)});
  return part;
}

}  // namespace

absl::StatusOr<Dataset> LoadCsv(const std::string& path) {
  DUOTONE_ASSIGN_OR_RETURN(const std::string bytes, ReadMaybeGzip(path));
  Table table;
  std::string_view rest = bytes;
  for (int64_t line = 1; !rest.empty(); ++line) {
    const size_t end = rest.find('\n');
    const std::string_view text = Trim(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (text.empty()) continue;
    const std::vector<std::string_view> cells = Split(text);
    if (line == 1 && IsHeader(cells)) continue;
    DUOTONE_RETURN_IF_ERROR(AddRow(cells, path, line, table));
  }
  const size_t rows = table.labels.size();
  if (rows == 0) return InvalidArgument("%s has no rows", path);
  const size_t test_rows = rows / 10;
  Dataset dataset;
  dataset.train = Rows(table, 0, rows - test_rows);
  if (test_rows > 0) dataset.test = Rows(table, rows - test_rows, rows);
  DUOTONE_RETURN_IF_ERROR(CountClasses(dataset, path));
  dataset.description = absl::StrFormat("%d + %d rows of %d columns from %s", rows - test_rows,
                                        test_rows, table.columns - 1, path);
  return dataset;
}

}  // namespace duotone::tools
