#ifndef KVASIR_SERVER_CALL_METADATA_H_
#define KVASIR_SERVER_CALL_METADATA_H_

#include <string>
#include <string_view>

#include "grpcpp/server_context.h"

#include "kvasir/v1/inference.pb.h"
#include "server/caller.h"

namespace kvasir {

// What a call brings beside its message. Results lie in `context`, but for the
// strings. Any thread.

// The value of the metadata key `key`, in lower case; empty if there is none.
std::string_view MetadataValue(const grpc::ServerContextBase& context,
                               const char* key);

// The id that the client or a proxy gave the call: x-request-id, or its alias
// x-correlation-id. Not checked; see ChooseRequestId().
std::string_view RequestIdIn(const grpc::ServerContextBase& context);

// The same for a call whose message has no id: empty if it is not fit to be
// sent back.
std::string EchoedRequestId(const grpc::ServerContextBase& context);

// Whose request it is, for limits: the caller's tenant or, where callers have
// no tokens, the salt. And how the log calls it, where a salt is shown by its
// hash alone.
std::string TenantOf(const Caller& caller, const v1::GenerateRequest& request);
std::string LoggedTenant(const Caller& caller,
                         const v1::GenerateRequest& request);

}  // namespace kvasir

#endif  // KVASIR_SERVER_CALL_METADATA_H_
