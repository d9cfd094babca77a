#ifndef KVASIR_SERVER_PREFIX_CODEC_H_
#define KVASIR_SERVER_PREFIX_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/prefix_order.h"
#include "kvasir/v1/cache_admin.pb.h"
#include "server/generation_backend.h"

namespace kvasir {

// Most ids of one EvictPrefixes call.
inline constexpr int kMaxPrefixIds = 1024;

v1::Prefix EncodePrefix(const CachedPrefix& prefix);

// `model` as in the request that has the filter. INVALID_ARGUMENT, with the
// field's name, for what no prefix can be. What is not there the engine finds.
absl::StatusOr<PrefixSelection> DecodeFilter(const v1::PrefixFilter& wire,
                                             std::string_view model,
                                             const GenerationBackend& backend);

// How a list of prefixes is ordered: by id, or by a number, the largest first.
enum class PrefixSort : uint8_t { kKey, kHits, kTokens, kLastHit };

// INVALID_ARGUMENT for a word that names no order.
absl::StatusOr<PrefixSort> DecodeOrderBy(std::string_view order_by);

struct PrefixPage {
  std::vector<CachedPrefix> prefixes;
  std::string next_token;  // empty: nothing follows
};

// The page of `prefixes` that a call asks for. A token says which prefix was
// the last one told and what its number was, so that others may come and go
// between two calls. INVALID_ARGUMENT for a negative size or a token that was
// not given for this order. Pure.
absl::StatusOr<PrefixPage> FindPrefixPage(std::vector<CachedPrefix> prefixes,
                                          PrefixSort sort, int32_t page_size,
                                          std::string_view page_token);

// UNIMPLEMENTED for any but DEVICE.
absl::Status CheckTiers(const google::protobuf::RepeatedField<int>& tiers);

}  // namespace kvasir

#endif  // KVASIR_SERVER_PREFIX_CODEC_H_
