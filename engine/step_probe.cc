#include "engine/step_probe.h"

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/model_runner.h"

namespace kvasir {

absl::Status ProbeStep(KvCache& cache, const ServedVersion& version) {
  const TokenId token = 0;  // every model has a row for it
  const absl::Span<const TokenId> tokens(&token, 1);
  LeaseRequest request{.version = version.id(),
                       .purpose = LeasePurpose::kWarm,
                       .tokens = tokens,
                       .read_cache = false,
                       .write_cache = false,
                       .resumed = true};
  absl::StatusOr<Lease> lease = cache.OpenLease(request);
  if (!lease.ok()) {
    request.purpose = LeasePurpose::kHeld;
    lease = cache.OpenLease(request);
  }
  if (!lease.ok() ||
      cache.PiecesNeeded(*lease, 1) > cache.Capacity().available_pieces()) {
    return absl::OkStatus();
  }
  const LeaseGrowth growth{&*lease, tokens};
  const Reservation dropped = cache.Reserve({&growth, 1});
  const StepRows rows{.tokens = tokens, .table = dropped.Table(0)};
  return version.runner().Run({&rows, 1}).status();
}

}  // namespace kvasir
