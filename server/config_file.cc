#include "server/config_file.h"

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "yaml-cpp/yaml.h"

namespace kvasir {
namespace {

using Values = std::map<std::string, FileValue>;

// Deeper nesting than any option has; guards the recursion.
constexpr int kMaxDepth = 8;

absl::Status Fault(const std::string& path, const YAML::Mark& mark,
                   const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ":", mark.line + 1, ": ", what));
}

absl::Status Flatten(const std::string& path, const std::string& prefix,
                     const YAML::Node& node, int depth, Values& values) {
  if (node.IsNull() && prefix.empty()) return absl::OkStatus();
  if (node.IsScalar() && !prefix.empty()) {
    FileValue value{node.Scalar(), node.Mark().line + 1};
    if (values.emplace(prefix, std::move(value)).second) {
      return absl::OkStatus();
    }
    return Fault(path, node.Mark(), absl::StrCat(prefix, " comes twice"));
  }
  if (!node.IsMap() || depth > kMaxDepth) {
    return Fault(path, node.Mark(),
                 absl::StrCat(prefix, prefix.empty() ? "" : ": ",
                              "wanted `key: value` or a section of them"));
  }
  for (const auto& entry : node) {
    const std::string name = entry.first.Scalar();
    const std::string key =
        prefix.empty() ? name : absl::StrCat(prefix, ".", name);
    RETURN_IF_ERROR(Flatten(path, key, entry.second, depth + 1, values));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Values> ReadConfigFile(const std::string& path) {
  Values values;
  // The library reports by exception; none leaves this function.
  try {
    RETURN_IF_ERROR(Flatten(path, "", YAML::LoadFile(path), 0, values));
  } catch (const YAML::BadFile&) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path));
  } catch (const YAML::Exception& error) {
    return Fault(path, error.mark, error.msg);
  }
  return values;
}

}  // namespace kvasir
