#ifndef KVASIR_ENGINE_SERVED_VERSION_H_
#define KVASIR_ENGINE_SERVED_VERSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cache/base/strong_id.h"
#include "engine/cache_promise.h"
#include "engine/model/tokenizer.h"
#include "engine/model_info.h"
#include "engine/request_check.h"

namespace kvasir {

class StepRunner;
struct LoadedModel;

// A cache version with all that it takes to compute in it: the model revision
// under its label. A request holds the one it chose from the moment it is
// tokenised until its last token (contract C5), and while anybody holds one,
// its version does not retire and its weights stay.
//
// Immutable and safe on any thread, except runner().
class ServedVersion {
 public:
  struct Parts {
    VersionId id;
    ModelInfo info;
    std::shared_ptr<const Tokenizer> tokenizer;
    std::shared_ptr<StepRunner> runner;
    // Of the revision; what is in here of the cache means nothing.
    RequestLimits limits;
    const CachePromise* promise = nullptr;  // outlives the version
    // Keeps weights and all else alive that the parts point to. May be null in
    // tests that have no model.
    std::shared_ptr<const LoadedModel> revision;
  };
  explicit ServedVersion(Parts parts);

  VersionId id() const { return parts_.id; }
  // As clients call the model, and this version of it.
  const std::string& model() const { return parts_.info.name; }
  const std::string& label() const { return parts_.info.cache_version; }

  const ModelInfo& info() const { return parts_.info; }
  const Tokenizer& tokenizer() const { return *parts_.tokenizer; }
  size_t longest_token_bytes() const { return longest_token_bytes_; }

  // What a request is checked against; see Engine::Submit().
  RequestLimits limits() const;
  // Most tokens of prompt and output together: what the model, the operator's
  // limit and the cache as large as it is now allow. What clients are told,
  // requests are checked against and sequences end at.
  int64_t max_context() const { return limits().EffectiveContext(); }
  // The same for a prompt that begins with all that is pinned: no longer one
  // can be served, and shorter ones may be too long.
  int64_t longest_context() const { return limits().LongestContext(); }

  // Engine thread only.
  StepRunner& runner() const { return *parts_.runner; }

  const std::shared_ptr<const LoadedModel>& revision() const {
    return parts_.revision;
  }

 private:
  const Parts parts_;
  const size_t longest_token_bytes_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_SERVED_VERSION_H_
