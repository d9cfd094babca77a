#ifndef KVASIR_SERVER_MODEL_CODEC_H_
#define KVASIR_SERVER_MODEL_CODEC_H_

#include <vector>

#include "absl/status/statusor.h"

#include "engine/engine.h"
#include "engine/engine_stats.h"
#include "kvasir/v1/cache_admin.pb.h"
#include "kvasir/v1/inference.pb.h"
#include "server/server_state.h"

namespace kvasir {

// What the server tells of its model, its load and its cache. Pure.

v1::Model EncodeModel(const ServedVersion& version, ServerPhase phase);

// The page that is asked for of `models`. Errors as of FindPage().
absl::StatusOr<v1::ListModelsResponse> AnswerListModels(
    const v1::ListModelsRequest& wire, std::vector<v1::Model> models);

v1::Load EncodeLoad(const ModelInfo& info, const EngineStats& stats);

// Also while loading, when `state` has no backend. NOT_FOUND for a model that
// is not there.
absl::StatusOr<v1::GetServerStatusResponse> AnswerServerStatus(
    const v1::GetServerStatusRequest& wire, const ServerState& state);

// `tiers` as in GetCacheStatsRequest: empty means all.
v1::CacheStats EncodeCacheStats(
    const ModelInfo& info, const EngineStats& stats,
    const google::protobuf::RepeatedField<int>& tiers, absl::Time now);

v1::KvDtype EncodeKvType(const std::string& kv_type);

}  // namespace kvasir

#endif  // KVASIR_SERVER_MODEL_CODEC_H_
