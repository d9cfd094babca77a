#include "engine/fingerprint.h"

#include <openssl/sha.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kvasir {
namespace {

// Collects fields so that no two different lists of fields give the same bytes.
class FieldWriter {
 public:
  void Text(absl::string_view name, std::string_view value) {
    absl::StrAppend(&bytes_, name.size(), ":", name, value.size(), ":");
    bytes_.append(value);
  }
  void Int(absl::string_view name, int64_t value) {
    Text(name, absl::StrCat(value));
  }
  // By its bits: what counts is what the kernels read.
  void Float(absl::string_view name, float value) {
    uint32_t bits = 0;
    static_assert(sizeof(bits) == sizeof(value));
    std::memcpy(&bits, &value, sizeof(bits));
    Int(name, bits);
  }

  std::string Digest() const {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size(),
           digest);
    return absl::BytesToHexString(absl::string_view(
        reinterpret_cast<const char*>(digest), sizeof(digest)));
  }

 private:
  std::string bytes_;
};

void WriteModel(const ModelConfig& config, FieldWriter& out) {
  out.Text("architecture", config.architecture);
  out.Int("head_count", config.head_count);
  out.Float("norm_epsilon", config.norm_epsilon);
  out.Float("attention_scale", config.attention_scale);
  out.Int("rope.pairing", static_cast<int64_t>(config.rope.pairing));
  out.Int("rope.rotated_dim", config.rope.rotated_dim);
  out.Float("rope.magnitude", config.rope.magnitude);
  for (const float frequency : config.rope.inverse_frequencies) {
    out.Float("rope.inverse_frequency", frequency);
  }
}

void WriteLayout(const KvLayout& layout, FieldWriter& out) {
  out.Int("layer_count", layout.layer_count);
  out.Int("kv_head_count", layout.kv_head_count);
  out.Int("head_dim", layout.head_dim);
  out.Int("block_tokens", layout.block_tokens);
  out.Int("kv_type", static_cast<int64_t>(layout.type));
}

}  // namespace

std::string CacheFingerprint(const CacheIdentity& identity) {
  FieldWriter out;
  out.Text("weights", identity.weights_digest);
  WriteModel(*identity.config, out);
  WriteLayout(identity.layout, out);
  out.Text("backend", identity.backend_numerics);
  out.Int("numerics_revision", kNumericsRevision);
  return out.Digest();
}

}  // namespace kvasir
