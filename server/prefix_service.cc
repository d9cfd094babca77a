#include "server/prefix_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/prefix_codec.h"
#include "server/request_codec.h"

namespace kvasir {
namespace {

absl::StatusOr<EvictedPrefixes> Evict(const v1::EvictPrefixesRequest& request,
                                      GenerationBackend& backend,
                                      const StillWanted& wanted) {
  switch (request.selection_case()) {
    case v1::EvictPrefixesRequest::kFilter: {
      ASSIGN_OR_RETURN(
          const PrefixSelection selection,
          DecodeFilter(request.filter(), request.model(), backend));
      return backend.EvictPrefixes(selection, request.dry_run(), wanted);
    }
    case v1::EvictPrefixesRequest::kIds:
      break;
    case v1::EvictPrefixesRequest::SELECTION_NOT_SET:
      return absl::InvalidArgumentError(
          "selection: wanted ids or filter, found none of them");
  }
  if (!request.model().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model: wanted it empty with ids, found ", QuoteText(request.model())));
  }
  const auto& ids = request.ids().ids();
  if (ids.empty() || ids.size() > kMaxPrefixIds) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ids.ids: wanted 1 to ", kMaxPrefixIds, ", found ", ids.size()));
  }
  return backend.EvictPrefixes(std::vector<std::string>(ids.begin(), ids.end()),
                               request.dry_run());
}

}  // namespace

absl::StatusOr<v1::ListPrefixesResponse> AnswerListPrefixes(
    const v1::ListPrefixesRequest& request, GenerationBackend& backend,
    const StillWanted& wanted) {
  ASSIGN_OR_RETURN(const PrefixSort sort, DecodeOrderBy(request.order_by()));
  ASSIGN_OR_RETURN(const PrefixSelection selection,
                   DecodeFilter(request.filter(), request.model(), backend));
  ASSIGN_OR_RETURN(std::vector<CachedPrefix> prefixes,
                   backend.ListPrefixes(selection, wanted));
  ASSIGN_OR_RETURN(const PrefixPage page,
                   FindPrefixPage(std::move(prefixes), sort,
                                  request.page_size(), request.page_token()));
  v1::ListPrefixesResponse answer;
  for (const CachedPrefix& prefix : page.prefixes) {
    *answer.add_prefixes() = EncodePrefix(prefix);
  }
  answer.set_next_page_token(page.next_token);
  return answer;
}

absl::StatusOr<v1::GetPrefixResponse> AnswerGetPrefix(
    const v1::GetPrefixRequest& request, GenerationBackend& backend) {
  ASSIGN_OR_RETURN(const CachedPrefix prefix,
                   backend.GetPrefix(request.prefix_id()));
  v1::GetPrefixResponse answer;
  *answer.mutable_prefix() = EncodePrefix(prefix);
  return answer;
}

absl::StatusOr<v1::PinPrefixResponse> AnswerPinPrefix(
    const v1::PinPrefixRequest& request, GenerationBackend& backend) {
  if (request.retention() != v1::RETENTION_UNSPECIFIED &&
      request.retention() != v1::RETENTION_PINNED) {
    return absl::UnimplementedError(
        absl::StrCat("retention: this server pins, found number ",
                     static_cast<int>(request.retention())));
  }
  absl::Duration ttl = absl::InfiniteDuration();
  if (request.has_ttl()) {
    ASSIGN_OR_RETURN(ttl, DecodePositiveDuration("ttl", request.ttl()));
  }
  ASSIGN_OR_RETURN(const CachedPrefix prefix,
                   backend.PinPrefix(request.prefix_id(), ttl));
  v1::PinPrefixResponse answer;
  *answer.mutable_prefix() = EncodePrefix(prefix);
  return answer;
}

absl::StatusOr<v1::UnpinPrefixResponse> AnswerUnpinPrefix(
    const v1::UnpinPrefixRequest& request, GenerationBackend& backend) {
  ASSIGN_OR_RETURN(const CachedPrefix prefix,
                   backend.UnpinPrefix(request.prefix_id()));
  v1::UnpinPrefixResponse answer;
  *answer.mutable_prefix() = EncodePrefix(prefix);
  return answer;
}

absl::StatusOr<v1::EvictPrefixesResponse> AnswerEvictPrefixes(
    const v1::EvictPrefixesRequest& request, GenerationBackend& backend,
    const StillWanted& wanted) {
  RETURN_IF_ERROR(CheckTiers(request.tiers()));
  ASSIGN_OR_RETURN(const EvictedPrefixes evicted,
                   Evict(request, backend, wanted));
  v1::EvictPrefixesResponse answer;
  answer.set_evicted_block_count(evicted.blocks);
  answer.set_freed_bytes(evicted.bytes);
  answer.set_kept_block_count(evicted.kept_blocks);
  return answer;
}

}  // namespace kvasir
