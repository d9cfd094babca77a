#include "server/call_metadata.h"

#include "engine/prefix_order.h"
#include "server/request_codec.h"

namespace kvasir {
namespace {

// Names under which clients and proxies send a request's id.
constexpr const char* kIdKeys[] = {"x-request-id", "x-correlation-id"};

}  // namespace

std::string_view MetadataValue(const grpc::ServerContextBase& context,
                               const char* key) {
  const auto it = context.client_metadata().find(key);
  if (it == context.client_metadata().end()) return {};
  return {it->second.data(), it->second.size()};
}

std::string_view RequestIdIn(const grpc::ServerContextBase& context) {
  for (const char* key : kIdKeys) {
    const std::string_view id = MetadataValue(context, key);
    if (!id.empty()) return id;
  }
  return {};
}

std::string EchoedRequestId(const grpc::ServerContextBase& context) {
  return ChooseRequestId("", RequestIdIn(context), "").value_or("");
}

std::string TenantOf(const Caller& caller, const v1::GenerateRequest& request) {
  return caller.tenant.empty() ? request.cache().salt() : caller.tenant;
}

std::string LoggedTenant(const Caller& caller,
                         const v1::GenerateRequest& request) {
  if (!caller.tenant.empty()) return caller.tenant;
  const std::string& salt = request.cache().salt();
  return salt.empty() ? "" : HashSalt(salt);
}

}  // namespace kvasir
