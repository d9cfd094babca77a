#include "server/cli/format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "cache/base/check.h"

namespace kvasir::cli {
namespace {

constexpr const char* kBold = "\033[1m";
constexpr const char* kPlain = "\033[0m";

// `value` with three digits that count.
std::string ThreeDigits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f", decimals, value);
}

std::string Padded(const std::string& text, size_t width, bool right) {
  const std::string blanks(width - std::min(width, DisplayWidth(text)), ' ');
  return right ? blanks + text : text + blanks;
}

}  // namespace

std::string FormatCount(int64_t count) {
  const std::string digits = absl::StrCat(count < 0 ? -count : count);
  std::string out;
  if (count < 0) out.push_back('-');
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

std::string FormatPercent(double ratio) {
  return absl::StrFormat("%.1f %%", 100 * ratio);
}

std::string FormatSpan(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds >= 59.95) {
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  }
  if (seconds >= 0.9995) return ThreeDigits(seconds) + " s";
  if (seconds >= 0.9995e-3) return ThreeDigits(1e3 * seconds) + " ms";
  return ThreeDigits(1e6 * seconds) + " us";
}

std::string FormatRate(double per_second) {
  if (per_second >= 999.5) return FormatCount(std::llround(per_second));
  return ThreeDigits(per_second);
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

std::string Plural(int64_t count, const char* noun) {
  return absl::StrCat(FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (const Column& column : columns_) {
    widths_.push_back(DisplayWidth(column.header));
  }
}

void Table::AddRow(std::vector<std::string> cells) {
  KV_CHECK(cells.size() == columns_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    widths_[i] = std::max(widths_[i], DisplayWidth(cells[i]));
  }
  rows_.push_back(std::move(cells));
}

std::string Table::Render(bool bold) const {
  std::vector<std::string> headers;
  for (const Column& column : columns_) headers.push_back(column.header);
  std::string text = Line(headers);
  if (bold) text = absl::StrCat(kBold, text, kPlain);
  text += '\n';
  for (const std::vector<std::string>& row : rows_) text += Line(row) + '\n';
  return text;
}

std::string Table::Line(const std::vector<std::string>& cells) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += "  ";
    line += Padded(cells[i], widths_[i], columns_[i].right);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string RenderPairs(
    const std::vector<std::pair<std::string, std::string>>& pairs) {
  size_t width = 0;
  for (const auto& [key, value] : pairs) {
    width = std::max(width, DisplayWidth(key));
  }
  std::string text;
  for (const auto& [key, value] : pairs) {
    absl::StrAppend(&text, Padded(key, width, false), "  ", value, "\n");
  }
  return text;
}

size_t DisplayWidth(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string Visible(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppendFormat(&out, "\\x%02x", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace kvasir::cli
