#ifndef KVASIR_SERVER_VERSION_CHOICE_H_
#define KVASIR_SERVER_VERSION_CHOICE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "server/generation_backend.h"

namespace kvasir {

// Which version a call means. Whoever tokenises holds what is returned until
// the request is with the engine, so that both see the same one, and lets go of
// it before the backend ends.

// `version` is a label or a fingerprint; several versions may share one, and
// then the active one is meant, else the oldest that serves. Empty names as in
// Engine::Resolve(), and the same errors.
absl::StatusOr<std::shared_ptr<const ServedVersion>> ChooseVersion(
    const GenerationBackend& backend, std::string_view model,
    std::string_view version);

// The label of the resident version called so, in whatever state; a fingerprint
// as above. `version` itself if there is none, for the engine to refuse.
std::string LabelOf(const std::vector<VersionInfo>& versions,
                    std::string_view model, std::string_view version);

// The active version of each model, in the order in which they were loaded.
std::vector<std::shared_ptr<const ServedVersion>> ActiveVersions(
    const GenerationBackend& backend);

// The active version of the first model, which there always is.
std::shared_ptr<const ServedVersion> FirstVersion(
    const GenerationBackend& backend);

}  // namespace kvasir

#endif  // KVASIR_SERVER_VERSION_CHOICE_H_
