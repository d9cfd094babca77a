#ifndef KVASIR_SERVER_VERSION_CODEC_H_
#define KVASIR_SERVER_VERSION_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "engine/engine_stats.h"
#include "engine/version_order.h"
#include "kvasir/v1/cache_admin.pb.h"
#include "server/generation_backend.h"

namespace kvasir {

// Limits on what names a version. Documented in cache_admin.proto.
inline constexpr size_t kMaxVersionLabelBytes = 128;
inline constexpr size_t kMaxModelPathBytes = 4095;  // what Linux opens
inline constexpr int32_t kMaxHottestPrefixes = 4096;

// The calls about versions, without the waiting. Pure but for what they ask the
// backend.

// INVALID_ARGUMENT, "wanted ..., found ...", unless `label` can be one: it goes
// to metrics and logs.
absl::Status CheckVersionLabel(std::string_view label);

// What the cache knows of a version; null for one that it does not know yet.
const VersionSnapshot* FindVersion(const CacheSnapshot& cache, VersionId id);

// `stats` holds what the version has; a version that it does not know yet has
// nothing.
v1::CacheVersion EncodeVersion(const VersionInfo& info,
                               const EngineStats& stats,
                               const std::string& kv_type);
// With what `backend` knows now.
v1::CacheVersion EncodeVersion(const VersionInfo& info,
                               const GenerationBackend& backend);

// In the order in which they were made. INVALID_ARGUMENT as of FindPage(),
// NOT_FOUND for an unknown model.
absl::StatusOr<v1::ListCacheVersionsResponse> AnswerListVersions(
    const v1::ListCacheVersionsRequest& wire, const GenerationBackend& backend);

// What a call wants to be made, without a sink. INVALID_ARGUMENT with the
// field, wanted and found.
absl::StatusOr<VersionOrder> DecodeCreateVersion(
    const v1::CreateCacheVersionRequest& wire,
    const GenerationBackend& backend);

v1::CreateCacheVersionResponse EncodeVersionProgress(
    const VersionProgress& progress);

// These wait for the engine. INVALID_ARGUMENT for an empty name; other errors
// are the engine's.
absl::StatusOr<v1::ActivateCacheVersionResponse> Activate(
    const v1::ActivateCacheVersionRequest& wire, GenerationBackend& backend);
absl::StatusOr<v1::RollbackCacheVersionResponse> RollBack(
    const v1::RollbackCacheVersionRequest& wire, GenerationBackend& backend);
absl::StatusOr<v1::DeleteCacheVersionResponse> Delete(
    const v1::DeleteCacheVersionRequest& wire, GenerationBackend& backend);

}  // namespace kvasir

#endif  // KVASIR_SERVER_VERSION_CODEC_H_
