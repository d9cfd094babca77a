#ifndef KVASIR_SERVER_KVASIR_SERVER_H_
#define KVASIR_SERVER_KVASIR_SERVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/config_values.h"
#include "server/generation_backend.h"
#include "server/secrets.h"
#include "server/server_config.h"
#include "server/server_state.h"

namespace kvasir {

// The server as a whole: the gRPC server, the engine behind it and the
// exporter.
//
// It answers from Start() on. Until Serve() hands it the engine it is
// NOT_SERVING and calls that need the model are UNAVAILABLE.
class KvasirServer {
 public:
  // Takes all ports. ALREADY_EXISTS names a port that is taken; other errors
  // as of Secrets::Read() and CheckCanListen(). `on_broken` as in Health.
  static absl::StatusOr<std::unique_ptr<KvasirServer>> Start(
      const ServerConfig& config, std::function<void()> on_broken);

  // Ends at once: running calls are cancelled.
  ~KvasirServer();

  void SetLoadProgress(int64_t done_bytes, int64_t total_bytes);

  // How large the engine's cache is to be; see MemoryWatch. Any thread, before
  // Serve().
  absl::StatusOr<int64_t> SizeCache(const CacheSizeQuery& query);

  // Whether there is memory for the weights of a further revision; see
  // MemoryWatch. Any thread, after Serve(), also while this is destroyed.
  absl::StatusOr<WeightRoom> HoldWeights(int64_t bytes);

  // The model is loaded: from now on calls are served. Once.
  void Serve(std::unique_ptr<GenerationBackend> backend);

  // Health says NOT_SERVING from Serve() on until it is released, although
  // calls are served. Before Serve().
  void HoldReady();
  void ReleaseReady();

  // NOT_SERVING from now on, although new requests are taken.
  void Leave();

  // NOT_SERVING and no new requests from now on; running ones go on.
  void BeginDrain();

  // Waits for the running requests, at most `grace`, then cancels those that
  // are left and waits until they are gone. How many that were.
  int64_t FinishDrain(absl::Duration grace);

  // With the ports that were picked where 0 was asked for.
  const HostPort& grpc_address() const;
  const HostPort& metrics_address() const;
  // Where CacheAdmin is alone, if it is.
  std::optional<HostPort> admin_address() const;

  // Any thread; as long as this lives.
  ServerState& state();
  Secrets& secrets();

  // What tenants may take of the server from now on. Any thread.
  void SetTenantLimits(std::vector<TenantLimit> limits);

 private:
  struct Impl;
  explicit KvasirServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_KVASIR_SERVER_H_
