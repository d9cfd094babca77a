#include "server/version_choice.h"

#include <algorithm>

#include "cache/base/check.h"

namespace kvasir {
namespace {

// How well a version fits a fingerprint that several have.
int Standing(const VersionInfo& info) {
  return info.active ? 2 : info.state == VersionState::kServing ? 1 : 0;
}

}  // namespace

std::string LabelOf(const std::vector<VersionInfo>& versions,
                    std::string_view model, std::string_view version) {
  const VersionInfo* best = nullptr;
  for (const VersionInfo& info : versions) {
    if (!model.empty() && info.model != model) continue;
    if (info.label == version) return info.label;
    if (info.fingerprint != version) continue;
    if (best == nullptr || Standing(info) > Standing(*best)) best = &info;
  }
  return best == nullptr ? std::string(version) : best->label;
}

absl::StatusOr<std::shared_ptr<const ServedVersion>> ChooseVersion(
    const GenerationBackend& backend, std::string_view model,
    std::string_view version) {
  if (version.empty()) return backend.Resolve(model, "");
  return backend.Resolve(model, LabelOf(backend.Versions(), model, version));
}

std::vector<std::shared_ptr<const ServedVersion>> ActiveVersions(
    const GenerationBackend& backend) {
  std::vector<std::shared_ptr<const ServedVersion>> active;
  std::vector<std::string> seen;
  for (const VersionInfo& info : backend.Versions()) {
    if (std::find(seen.begin(), seen.end(), info.model) != seen.end()) continue;
    seen.push_back(info.model);
    auto version = backend.Resolve(info.model, "");
    if (version.ok()) active.push_back(*std::move(version));
  }
  return active;
}

std::shared_ptr<const ServedVersion> FirstVersion(
    const GenerationBackend& backend) {
  auto version = backend.Resolve("", "");
  KV_CHECK(version.ok()) << version.status();
  return *std::move(version);
}

}  // namespace kvasir
