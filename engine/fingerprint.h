#ifndef KVASIR_ENGINE_FINGERPRINT_H_
#define KVASIR_ENGINE_FINGERPRINT_H_

#include <string>
#include <string_view>

#include "cache/kv_layout.h"
#include "engine/model/model_config.h"

namespace kvasir {

// Grows by one with every change to Kvasir itself that changes a bit of a key,
// a value or their place in a block, without changing anything else that the
// fingerprint covers. tests/engine/numerics_revision_test.cc holds it to
// that.
inline constexpr int kNumericsRevision = 2;

// Everything that decides the bytes of a cache block but its tokens and salt.
struct CacheIdentity {
  std::string_view weights_digest;  // SHA-256 of the model file, hex
  const ModelConfig* config = nullptr;
  KvLayout layout;                    // block size, type and shape
  std::string_view backend_numerics;  // Backend::numerics()
};

// SHA-256 over the identity, each field with its name and length in front, in
// lower-case hex. Blocks are shared between equal fingerprints only (contract
// C1), so whatever could change a block has to be in here.
std::string CacheFingerprint(const CacheIdentity& identity);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_FINGERPRINT_H_
