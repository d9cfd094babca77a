#ifndef KVASIR_ENGINE_VERSION_ORDER_H_
#define KVASIR_ENGINE_VERSION_ORDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "engine/version_info.h"

namespace kvasir {

// How far the making of a version is. Plain value.
struct VersionProgress {
  enum class Phase : uint8_t { kLoading, kWarming, kDone };
  Phase phase = Phase::kLoading;
  int64_t done = 0;  // bytes while loading, prefixes while warming
  int64_t total = 0;
  int64_t warmed_tokens = 0;  // resident in the new version
};

// Where the making of a version tells how far it is. Implemented by the server;
// shared by engine and caller, whoever lets go last destroys it.
class VersionSink {
 public:
  virtual ~VersionSink() = default;

  // On whatever thread does the work; must not block. False gives it up:
  // nothing of the version is left.
  virtual bool OnProgress(const VersionProgress& progress) = 0;

  // Once, last. OK: the version is there and serves whoever names it; `info`
  // says how it is called. ALREADY_EXISTS: the label is taken. NOT_FOUND: no
  // such model or file. FAILED_PRECONDITION: its blocks are of another shape,
  // or kMaxResidentVersions are there. RESOURCE_EXHAUSTED: no memory.
  // CANCELLED: given up. UNAVAILABLE: the engine drains or has ended. Or
  // whatever is wrong with the file. On an error no such version is left,
  // unless requests got it before it was warm.
  virtual void OnEnd(const absl::Status& status, const VersionInfo& info) = 0;
};

// What somebody wants a new version to be.
struct VersionOrder {
  std::string model;  // that it is a version of; empty: the first one
  std::string label;  // unique among those resident; empty: from the digest
  std::string path;   // a GGUF file; empty: the weights of the active version
  // So many of the active version's hottest prefixes are computed in the new
  // one before it serves.
  int64_t warm_prefixes = 0;
  // Blocks that it may keep when nobody holds them; 0: no limit of its own.
  int64_t quota_blocks = 0;
  std::shared_ptr<VersionSink> sink;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_VERSION_ORDER_H_
