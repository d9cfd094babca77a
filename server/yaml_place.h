#ifndef KVASIR_SERVER_YAML_PLACE_H_
#define KVASIR_SERVER_YAML_PLACE_H_

#include <string>

#include "absl/strings/str_cat.h"

#include "yaml-cpp/mark.h"

namespace kvasir {

// Where something stands in the YAML file `name`, for errors: "name:12", or the
// name alone of what has no line, such as a document that is empty.
inline std::string YamlPlace(const std::string& name, const YAML::Mark& mark) {
  return mark.is_null() ? name : absl::StrCat(name, ":", mark.line + 1);
}

}  // namespace kvasir

#endif  // KVASIR_SERVER_YAML_PLACE_H_
