#ifndef KVASIR_SERVER_GUARDED_SERVICES_H_
#define KVASIR_SERVER_GUARDED_SERVICES_H_

#include <memory>

#include "absl/status/status.h"
#include "grpcpp/impl/service_type.h"

namespace kvasir {

class CallGuard;
class CallStats;
class MemoryWatch;
struct GenerateSettings;
class ServerState;
class TenantGate;
class WorkPool;

// What the services work with; see GenerateService and AdminService. All of it
// outlives them.
struct ServiceParts {
  ServerState* state;
  CallStats* calls;
  CallGuard* guard;
  MemoryWatch* memory;
  TenantGate* tenants;
  WorkPool* tokenizing;
  WorkPool* administering;
  WorkPool* walking;
  WorkPool* warming;
};

// The services as they are on the wire: what the guard refuses never reaches
// them.
//
// kvasir.v1.Inference asks for the scope `inference`, CancelGeneration for
// either.
std::unique_ptr<grpc::Service> MakeInference(const ServiceParts& parts,
                                             const GenerateSettings& settings);

// kvasir.v1.CacheAdmin asks for the scope `admin`. `elsewhere`: OK, or what all
// calls that may be made are told, since another listener answers them.
std::unique_ptr<grpc::Service> MakeAdmin(const ServiceParts& parts,
                                         absl::Status elsewhere);

}  // namespace kvasir

#endif  // KVASIR_SERVER_GUARDED_SERVICES_H_
