#include "server/config_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/yaml_place.h"
#include "yaml-cpp/yaml.h"

namespace kvasir {
namespace {

using Values = std::map<std::string, FileValue>;

// Deeper nesting than any option has; guards the recursion.
constexpr int kMaxDepth = 8;

// Larger than any list of settings.
constexpr size_t kMaxFileBytes = size_t{1} << 20;

absl::Status Fault(const std::string& path, const YAML::Mark& mark,
                   const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(YamlPlace(path, mark), ": ", what));
}

bool IsPlainList(const YAML::Node& node) {
  return node.IsSequence() &&
         std::all_of(node.begin(), node.end(),
                     [](const YAML::Node& item) { return item.IsScalar(); });
}

FileValue ReadValue(const YAML::Node& node) {
  FileValue value;
  value.line = node.Mark().line + 1;
  value.list = node.IsSequence();
  if (!value.list) {
    value.text = node.Scalar();
    return value;
  }
  for (const YAML::Node& item : node) {
    value.items.push_back(item.Scalar());
  }
  return value;
}

absl::Status Flatten(const std::string& path, const std::string& prefix,
                     const YAML::Node& node, int depth, Values& values) {
  if (node.IsNull() && prefix.empty()) return absl::OkStatus();
  if ((node.IsScalar() || IsPlainList(node)) && !prefix.empty()) {
    if (values.emplace(prefix, ReadValue(node)).second) {
      return absl::OkStatus();
    }
    return Fault(path, node.Mark(),
                 absl::StrCat(QuoteText(prefix), " comes twice"));
  }
  if (!node.IsMap() || depth > kMaxDepth) {
    return Fault(path, node.Mark(),
                 absl::StrCat(prefix.empty() ? "" : QuoteText(prefix) + ": ",
                              "wanted `key: value` or a section of them"));
  }
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      return Fault(path, entry.first.Mark(), "wanted a plain key");
    }
    const std::string name = entry.first.Scalar();
    const std::string key =
        prefix.empty() ? name : absl::StrCat(prefix, ".", name);
    RETURN_IF_ERROR(Flatten(path, key, entry.second, depth + 1, values));
  }
  return absl::OkStatus();
}

// The whole file, or nothing of /dev/null; a folder or a pipe has no settings.
absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode) && !S_ISCHR(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": wanted a YAML file, found no regular file"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() <= kMaxFileBytes) return text;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": wanted at most ", kMaxFileBytes, " bytes, found more"));
}

}  // namespace

absl::StatusOr<Values> ReadConfigFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWhole(path));
  Values values;
  // The library reports by exception; none leaves this function.
  try {
    RETURN_IF_ERROR(Flatten(path, "", YAML::Load(text), 0, values));
  } catch (const YAML::Exception& error) {
    return Fault(path, error.mark, error.msg);
  }
  return values;
}

}  // namespace kvasir
