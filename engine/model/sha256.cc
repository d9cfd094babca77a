#include "engine/model/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"

#include "cache/base/check.h"

namespace kvasir {

struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) { KV_CHECK(context != nullptr); }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  EVP_MD_CTX* const context;
};

void Sha256::Delete::operator()(State* state) const { delete state; }

Sha256::Sha256() : state_(new State) {
  KV_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::Sha256(const Sha256& other) : state_(new State) {
  KV_CHECK(EVP_MD_CTX_copy_ex(state_->context, other.state_->context) == 1);
}

Sha256& Sha256::operator=(const Sha256& other) {
  if (this != &other) *this = Sha256(other);
  return *this;
}

void Sha256::Update(absl::Span<const uint8_t> bytes) {
  KV_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

void Sha256::Update(std::string_view bytes) {
  KV_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() const {
  const Sha256 last(*this);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  KV_CHECK(EVP_DigestFinal_ex(last.state_->context, digest, &size) == 1);
  return absl::BytesToHexString(
      std::string(reinterpret_cast<const char*>(digest), size));
}

}  // namespace kvasir
