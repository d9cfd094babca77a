#include "cache/block_identity.h"

#include <cstddef>
#include <string_view>

#include "openssl/evp.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

// `value` in `bytes` bytes, the lowest first, whatever the host's order is.
void AppendNumber(std::string& message, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    message.push_back(static_cast<char>(value >> (8 * i)));
  }
}

void AppendField(std::string& message, std::string_view field) {
  AppendNumber(message, field.size(), sizeof(uint64_t));
  message.append(field);
}

}  // namespace

void BlockHasher::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

void BlockHasher::Free::operator()(evp_md_st* digest) const {
  EVP_MD_free(digest);
}

// The digest is fetched once, because EVP_sha256() makes OpenSSL 3 look it up
// anew for every message, which costs more than hashing a block.
BlockHasher::BlockHasher()
    : digest_(EVP_MD_fetch(nullptr, "SHA256", nullptr)),
      context_(EVP_MD_CTX_new()) {
  KV_CHECK(digest_ != nullptr && context_ != nullptr)
      << "OpenSSL has no SHA-256";
}

BlockHasher::~BlockHasher() = default;

BlockKey BlockHasher::Key(const BlockKey* parent, const BlockScope& scope,
                          absl::Span<const TokenId> tokens) {
  message_.clear();
  AppendField(message_, parent == nullptr
                            ? std::string_view()
                            : std::string_view(
                                  reinterpret_cast<const char*>(parent->data()),
                                  parent->size()));
  AppendField(message_, scope.fingerprint);
  AppendField(message_, scope.version);
  AppendField(message_, scope.salt);
  AppendNumber(message_, tokens.size() * sizeof(TokenId), sizeof(uint64_t));
  for (const TokenId token : tokens) {
    AppendNumber(message_, static_cast<uint32_t>(token), sizeof(TokenId));
  }
  BlockKey key;
  unsigned int key_bytes = 0;
  const bool hashed =
      EVP_DigestInit_ex2(context_.get(), digest_.get(), nullptr) == 1 &&
      EVP_DigestUpdate(context_.get(), message_.data(), message_.size()) == 1 &&
      EVP_DigestFinal_ex(context_.get(), key.data(), &key_bytes) == 1;
  KV_CHECK(hashed && key_bytes == key.size()) << key_bytes << " bytes";
  return key;
}

}  // namespace kvasir
