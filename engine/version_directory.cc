#include "engine/version_directory.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "engine/model/utf8.h"

namespace kvasir {
namespace {

absl::Status NoModel(std::string_view model) {
  return absl::NotFoundError(
      absl::StrCat("model: no model ", QuoteText(model), " is loaded"));
}

absl::Status NotServing(const VersionInfo& info) {
  return absl::FailedPreconditionError(absl::StrCat(
      "cache.version: ", QuoteText(info.label), " is ",
      VersionStateName(info.state), "; only a serving version can be named"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ServedVersion>> VersionDirectory::Resolve(
    std::string_view model, std::string_view label) const {
  absl::MutexLock lock(&mu_);
  bool known = model.empty();
  const std::string_view first =
      entries_.empty() ? std::string_view() : entries_.front().info.model;
  for (const auto& [version, info] : entries_) {
    const bool same_model = info.model == model;
    known |= same_model;
    if (label.empty()) {
      const std::string_view wanted = model.empty() ? first : model;
      if (info.model == wanted && info.active) return version;
      continue;
    }
    if (info.label != label || !(model.empty() || same_model)) continue;
    if (info.state != VersionState::kServing) return NotServing(info);
    return version;
  }
  if (!known || label.empty()) return NoModel(model);
  return absl::NotFoundError(absl::StrCat("cache.version: no version ",
                                          QuoteText(label), " is resident"));
}

std::vector<VersionInfo> VersionDirectory::List() const {
  absl::MutexLock lock(&mu_);
  std::vector<VersionInfo> infos;
  infos.reserve(entries_.size());
  for (const Entry& entry : entries_) infos.push_back(entry.info);
  return infos;
}

std::shared_ptr<const LoadedModel> VersionDirectory::FindRevision(
    std::string_view digest) const {
  absl::MutexLock lock(&mu_);
  for (const auto& [version, info] : entries_) {
    if (info.weights_digest == digest) return version->revision();
  }
  return nullptr;
}

void VersionDirectory::Publish(std::vector<Entry> entries) {
  absl::MutexLock lock(&mu_);
  entries_.swap(entries);
}

}  // namespace kvasir
