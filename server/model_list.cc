#include "server/model_list.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"

#include "cache/base/status_macros.h"
#include "server/text.h"

namespace kvasir {
namespace {

// The bytes of "NAME=" that `text` begins with; 0 if it does not.
size_t NameBytes(std::string_view text) {
  const size_t end = text.find_first_of("=/,");
  return end == std::string_view::npos || end == 0 || text[end] != '='
             ? 0
             : end + 1;
}

absl::StatusOr<ModelSource> ParseModel(std::string_view text) {
  const size_t named = NameBytes(text);
  ModelSource model;
  model.path = std::string(text.substr(named));
  if (named > 0) model.name = std::string(text.substr(0, named - 1));
  if (!model.path.empty()) return model;
  return absl::InvalidArgumentError(
      "wanted the path of a GGUF file, or NAME=PATH, found nothing");
}

}  // namespace

absl::StatusOr<std::vector<ModelSource>> ParseModels(std::string_view text) {
  std::vector<ModelSource> models;
  for (const absl::string_view part :
       absl::StrSplit(View(text), kModelSeparator)) {
    std::string_view rest(part.data(), part.size());
    size_t comma = rest.find(',');
    while (comma != std::string_view::npos) {
      if (NameBytes(rest.substr(comma + 1)) > 0) {
        ASSIGN_OR_RETURN(models.emplace_back(),
                         ParseModel(rest.substr(0, comma)));
        rest.remove_prefix(comma + 1);
        comma = rest.find(',');
      } else {
        comma = rest.find(',', comma + 1);
      }
    }
    ASSIGN_OR_RETURN(models.emplace_back(), ParseModel(rest));
  }
  return models;
}

}  // namespace kvasir
