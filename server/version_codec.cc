#include "server/version_codec.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/event_codec.h"
#include "server/log.h"
#include "server/model_codec.h"
#include "server/page.h"
#include "server/version_choice.h"

namespace kvasir {
namespace {

v1::CacheVersionState EncodeState(const VersionInfo& info) {
  switch (info.state) {
    case VersionState::kWarming:
      return v1::CACHE_VERSION_STATE_BUILDING;
    case VersionState::kServing:
      return info.active ? v1::CACHE_VERSION_STATE_ACTIVE
                         : v1::CACHE_VERSION_STATE_SERVING;
    case VersionState::kDraining:
      return v1::CACHE_VERSION_STATE_DRAINING;
    case VersionState::kRetired:
      return v1::CACHE_VERSION_STATE_RETIRED;
  }
  return v1::CACHE_VERSION_STATE_UNSPECIFIED;
}

int64_t BlockBytes(const EngineStats& stats) {
  const auto& tiers = stats.cache.tiers;
  return tiers.empty() ? 0 : tiers.front().block_bytes;
}

absl::Status CheckModelPath(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  if (path.size() > kMaxModelPathBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("model_path: wanted at most ", kMaxModelPathBytes,
                     " bytes, found ", path.size()));
  }
  // Where the server was started is not the client's to know.
  if (path.front() == '/' && path.find('\0') == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model_path: wanted an absolute path on the server's "
                   "machine, found ",
                   QuoteText(path)));
}

absl::StatusOr<int64_t> DecodeQuota(const v1::CreateCacheVersionRequest& wire,
                                    int64_t block_bytes) {
  if (wire.quota_bytes() < 0 || wire.quota_blocks() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(wire.has_quota_bytes() ? "quota_bytes" : "quota_blocks",
                     ": wanted 0 or more, found ",
                     wire.quota_bytes() + wire.quota_blocks()));
  }
  if (!wire.has_quota_bytes() || wire.quota_bytes() == 0) {
    return wire.quota_blocks();
  }
  if (block_bytes > 0 && wire.quota_bytes() >= block_bytes) {
    return wire.quota_bytes() / block_bytes;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("quota_bytes: wanted at least one block of ", block_bytes,
                   " bytes, or 0, found ", wire.quota_bytes()));
}

absl::StatusOr<std::string> NamedLabel(const std::string& model,
                                       const std::string& version,
                                       const GenerationBackend& backend) {
  if (version.empty()) {
    return absl::InvalidArgumentError(
        "version: wanted a version's label or fingerprint, found none");
  }
  return LabelOf(backend.Versions(), model, version);
}

void LogMove(std::string_view what, const VersionInfo& info) {
  Log(LogLevel::kInfo, what, {{"model", info.model}, {"label", info.label}});
}

}  // namespace

absl::Status CheckVersionLabel(std::string_view label) {
  const bool visible = std::all_of(label.begin(), label.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte < 0x7F;
  });
  if (visible && label.size() <= kMaxVersionLabelBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("wanted at most ", kMaxVersionLabelBytes,
                   " bytes of visible ASCII, found ", QuoteText(label)));
}

const VersionSnapshot* FindVersion(const CacheSnapshot& cache, VersionId id) {
  for (const VersionSnapshot& version : cache.versions) {
    if (version.id == id) return &version;
  }
  return nullptr;
}

v1::CacheVersion EncodeVersion(const VersionInfo& info,
                               const EngineStats& stats,
                               const std::string& kv_type) {
  v1::CacheVersion wire;
  wire.set_version(info.fingerprint);
  wire.set_label(info.label);
  wire.set_model(info.model);
  wire.set_tokenizer_digest(info.tokenizer_digest);
  wire.set_kv_dtype(EncodeKvType(kv_type));
  wire.set_block_size(stats.cache.block_tokens);
  wire.set_state(EncodeState(info));
  *wire.mutable_create_time() = EncodeTime(info.created);
  wire.set_retiring(info.retiring);
  wire.set_quota_blocks(info.quota_blocks);
  wire.set_model_path(info.path);
  wire.set_weights_digest(info.weights_digest);
  if (const auto* version = FindVersion(stats.cache, info.id)) {
    const BlockCounts& blocks = version->blocks;
    wire.set_hit_tokens(version->hit_tokens);
    wire.set_lease_count(version->lease_count);
    wire.set_reserved_blocks(blocks.reserved);
    wire.set_pinned_blocks(blocks.pinned);
    wire.set_cached_blocks(blocks.cached);
    wire.set_byte_size((blocks.reserved + blocks.pinned + blocks.cached) *
                       BlockBytes(stats));
  }
  return wire;
}

v1::CacheVersion EncodeVersion(const VersionInfo& info,
                               const GenerationBackend& backend) {
  return EncodeVersion(info, backend.Stats(),
                       FirstVersion(backend)->info().kv_type);
}

absl::StatusOr<v1::ListCacheVersionsResponse> AnswerListVersions(
    const v1::ListCacheVersionsRequest& wire,
    const GenerationBackend& backend) {
  if (!wire.model().empty()) {
    RETURN_IF_ERROR(ChooseVersion(backend, wire.model(), "").status());
  }
  std::vector<VersionInfo> versions = backend.Versions();
  std::erase_if(versions, [&wire](const VersionInfo& info) {
    return !wire.model().empty() && info.model != wire.model();
  });
  // Pages go by ids, which count up as versions are made.
  std::sort(versions.begin(), versions.end(),
            [](const VersionInfo& a, const VersionInfo& b) {
              return a.id.value() < b.id.value();
            });
  std::vector<int64_t> ids;
  for (const VersionInfo& info : versions) ids.push_back(info.id.value());
  ASSIGN_OR_RETURN(const Page page,
                   FindPage(wire.page_size(), wire.page_token(), ids));
  const EngineStats stats = backend.Stats();
  // One layout holds all versions.
  const std::string kv_type = FirstVersion(backend)->info().kv_type;
  v1::ListCacheVersionsResponse answer;
  for (size_t i = page.begin; i < page.end; ++i) {
    *answer.add_versions() = EncodeVersion(versions[i], stats, kv_type);
  }
  answer.set_next_page_token(page.next_token);
  return answer;
}

absl::StatusOr<VersionOrder> DecodeCreateVersion(
    const v1::CreateCacheVersionRequest& wire,
    const GenerationBackend& backend) {
  if (const absl::Status status = CheckVersionLabel(wire.label());
      !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("label: ", status.message()));
  }
  RETURN_IF_ERROR(CheckModelPath(wire.model_path()));
  if (wire.warm_prefix_count() < 0 ||
      wire.warm_prefix_count() > kMaxHottestPrefixes) {
    return absl::InvalidArgumentError(
        absl::StrCat("warm_prefix_count: wanted 0 to ", kMaxHottestPrefixes,
                     ", found ", wire.warm_prefix_count()));
  }
  VersionOrder order;
  ASSIGN_OR_RETURN(order.quota_blocks,
                   DecodeQuota(wire, BlockBytes(backend.Stats())));
  order.model = wire.model();
  order.label = wire.label();
  order.path = wire.model_path();
  order.warm_prefixes = wire.warm_prefix_count();
  return order;
}

v1::CreateCacheVersionResponse EncodeVersionProgress(
    const VersionProgress& progress) {
  v1::CreateCacheVersionResponse wire;
  v1::OperationProgress& told = *wire.mutable_progress();
  switch (progress.phase) {
    case VersionProgress::Phase::kLoading:
      told.set_phase("loading");
      break;
    case VersionProgress::Phase::kWarming:
      told.set_phase("warming");
      break;
    case VersionProgress::Phase::kDone:
      told.set_phase("done");
      break;
  }
  told.set_done_count(progress.done);
  told.set_total_count(progress.total);
  wire.set_warmed_tokens(progress.warmed_tokens);
  return wire;
}

absl::StatusOr<v1::ActivateCacheVersionResponse> Activate(
    const v1::ActivateCacheVersionRequest& wire, GenerationBackend& backend) {
  ASSIGN_OR_RETURN(const std::string label,
                   NamedLabel(wire.model(), wire.version(), backend));
  ASSIGN_OR_RETURN(const VersionInfo info,
                   backend.ActivateVersion(wire.model(), label));
  LogMove("a cache version was activated", info);
  v1::ActivateCacheVersionResponse answer;
  *answer.mutable_version() = EncodeVersion(info, backend);
  return answer;
}

absl::StatusOr<v1::RollbackCacheVersionResponse> RollBack(
    const v1::RollbackCacheVersionRequest& wire, GenerationBackend& backend) {
  ASSIGN_OR_RETURN(const VersionInfo info,
                   backend.RollBackVersion(wire.model()));
  LogMove("a cache version was rolled back to", info);
  v1::RollbackCacheVersionResponse answer;
  *answer.mutable_version() = EncodeVersion(info, backend);
  return answer;
}

absl::StatusOr<v1::DeleteCacheVersionResponse> Delete(
    const v1::DeleteCacheVersionRequest& wire, GenerationBackend& backend) {
  ASSIGN_OR_RETURN(const std::string label,
                   NamedLabel(wire.model(), wire.version(), backend));
  ASSIGN_OR_RETURN(const VersionInfo info,
                   backend.DeleteVersion(wire.model(), label));
  LogMove("a cache version was deleted", info);
  v1::DeleteCacheVersionResponse answer;
  *answer.mutable_version() = EncodeVersion(info, backend);
  return answer;
}

}  // namespace kvasir
