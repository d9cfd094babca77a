#include "server/cancel_call.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "server/field_fault.h"
#include "server/request_codec.h"
#include "server/token_file.h"

namespace kvasir {
namespace {

absl::Status Check(const v1::CancelGenerationRequest& request,
                   const Caller& caller) {
  if (request.request_ids_size() == 0 ||
      request.request_ids_size() > kMaxCancelIds) {
    return FieldFault("request_ids",
                      absl::StrCat("1 to ", kMaxCancelIds, " ids"),
                      request.request_ids_size());
  }
  if (request.reason().size() > kMaxCancelReasonBytes) {
    return FieldFault("reason",
                      absl::StrCat("at most ", kMaxCancelReasonBytes, " bytes"),
                      request.reason().size());
  }
  const bool names_tenants = caller.may_admin && !caller.tenant.empty();
  const size_t most_bytes =
      kMaxRequestIdBytes + (names_tenants ? kMaxTenantBytes + 1 : 0);
  for (int i = 0; i < request.request_ids_size(); ++i) {
    RETURN_IF_ERROR(CheckId(absl::StrCat("request_ids[", i, "]"),
                            request.request_ids(i), most_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::CancelGenerationResponse> AnswerCancel(
    const v1::CancelGenerationRequest& request, GenerationBackend& backend,
    const Caller& caller) {
  RETURN_IF_ERROR(Check(request, caller));
  // It goes into the status of other calls, one line of text.
  const std::string reason = request.reason().empty()
                                 ? "no reason given"
                                 : absl::Utf8SafeCEscape(request.reason());
  v1::CancelGenerationResponse answer;
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& id : request.request_ids()) {
    if (!seen.insert(id).second) continue;
    if (backend.Cancel(caller.EngineId(id), CancelSource::kAdmin, reason) ||
        (caller.may_admin &&
         backend.Cancel(id, CancelSource::kAdmin, reason))) {
      answer.add_cancelled_ids(id);
    }
  }
  return answer;
}

}  // namespace kvasir
