#ifndef KVASIR_SERVER_CLI_FORMAT_H_
#define KVASIR_SERVER_CLI_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace kvasir::cli {

// How numbers look to people. Three digits say enough; JSON has all of them.

std::string FormatCount(int64_t count);           // "1,234,567"
std::string FormatPercent(double ratio);          // "48.4 %"
std::string FormatSpan(absl::Duration duration);  // "183 ms", "2.51 s", "1m05s"
std::string FormatRate(double per_second);        // "41.2", "1,204"

absl::Duration FromProto(const google::protobuf::Duration& duration);

// "1 token", "2 tokens".
std::string Plural(int64_t count, const char* noun);

// Columns of text under headers, numbers to the right, words to the left, two
// blanks between. Widths count characters, not bytes.
class Table {
 public:
  struct Column {
    std::string header;
    bool right = false;
  };
  explicit Table(std::vector<Column> columns);

  // As many cells as there are columns.
  void AddRow(std::vector<std::string> cells);

  // Lines with their ends, none with blanks before it; `bold` puts the headers
  // in bold for a terminal.
  std::string Render(bool bold) const;

 private:
  std::string Line(const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

// `key  value` lines with the values in one column.
std::string RenderPairs(
    const std::vector<std::pair<std::string, std::string>>& pairs);

// Characters of UTF-8 text.
size_t DisplayWidth(const std::string& text);

// Makes control characters visible ("\n", "\x1b"), so that foreign text cannot
// break a table or steer a terminal.
std::string Visible(const std::string& text);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_FORMAT_H_
