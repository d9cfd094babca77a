#include "server/daemon.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "cache/base/clock.h"
#include "cache/base/status_macros.h"
#include "grpc/support/log.h"
#include "server/config_reload.h"
#include "server/generation_backend.h"
#include "server/kvasir_server.h"
#include "server/log.h"
#include "server/model_load.h"
#include "server/quota_change.h"
#include "server/secrets.h"
#include "server/service_notify.h"
#include "server/signals.h"
#include "server/start_warmup.h"
#include "server/text.h"
#include "server/version_choice.h"

namespace kvasir {
namespace {

// How long an abandoned load may take to notice; it has nothing to lose.
constexpr absl::Duration kAbandonGrace = absl::Milliseconds(500);
// How long after the grace period an engine may take to let go.
constexpr absl::Duration kStuckGrace = absl::Seconds(10);

constexpr int kSignalExitBase = 128;

const char* NameOf(int signal) {
  return signal == SIGINT ? "SIGINT" : signal == SIGHUP ? "SIGHUP" : "SIGTERM";
}

// gRPC tells of a listener that it has given up, for want of file descriptors,
// by its log alone; it never listens again. Set once, woken by a flag.
std::atomic<bool> listener_lost{false};
std::atomic<Signals*> woken_by_loss{nullptr};

// gRPC's own complaints become lines like all others.
void LogFromGrpc(gpr_log_func_args* args) {
  if (absl::StrContains(args->message, "Failed accept")) {
    listener_lost = true;
    if (Signals* const signals = woken_by_loss) signals->Wake();
  }
  Log(args->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning
                                               : LogLevel::kDebug,
      args->message, {{"source", "grpc"}});
}

// A model that cannot chat serves text and ids all the same, but whoever
// started it should hear of it before the first client does.
void LogChat(const GenerationBackend& backend) {
  for (const auto& version : ActiveVersions(backend)) {
    const ModelInfo& info = version->info();
    if (info.chat_refusal.empty()) continue;
    Log(LogLevel::kWarning, "chat requests will be refused",
        {{"model", info.name}, {"reason", info.chat_refusal}});
  }
}

// With commas between them, the first one first.
std::string ModelNames(const GenerationBackend& backend) {
  std::string names;
  for (const auto& version : ActiveVersions(backend)) {
    absl::StrAppend(&names, names.empty() ? "" : ",", version->info().name);
  }
  return names;
}
std::string ModelPaths(const EngineOptions& options) {
  std::string paths = options.model_path;
  for (const ModelSource& model : options.more_models) {
    absl::StrAppend(&paths, ",", model.path);
  }
  return paths;
}

void LogReady(const KvasirServer& server, const GenerationBackend& backend,
              const ServedVersion& version) {
  const ModelInfo& info = version.info();
  const EngineStats stats = backend.Stats();
  int64_t cache_bytes = 0;
  for (const TierSnapshot& tier : stats.cache.tiers) {
    cache_bytes += tier.capacity_bytes;
  }
  Log(LogLevel::kInfo, "kvasird is ready",
      {{"grpc", server.grpc_address().ToString()},
       {"metrics", server.metrics_address().ToString()},
       {"admin",
        server.admin_address().value_or(server.grpc_address()).ToString()},
       {"model", ModelNames(backend)},
       {"backend", info.backend},
       {"threads", absl::StrCat(info.thread_count)},
       {"cache", FormatBytes(cache_bytes)},
       {"context", absl::StrCat(version.max_context())}});
}

// What only the model's sizes show to be wrong the engine calls by its own
// names; people know the options.
std::string WithOptionNames(const absl::Status& status) {
  std::string text(status.message());
  for (const auto& [field, option] :
       {std::pair{"cache_bytes: ", "--cache-size: "},
        std::pair{"cache_blocks: ", "--cache-blocks: "},
        std::pair{"more_models: ", "--model: "},
        std::pair{"eviction_policy: ", "--eviction-policy: "},
        std::pair{"tenant_quotas: ", "--tenant-quota: "}}) {
    if (absl::StartsWith(text, field)) {
      text = absl::StrCat(option, text.substr(std::strlen(field)));
    }
  }
  return text;
}

class Daemon {
 public:
  Daemon(const ConfigSources& sources, ParsedConfig parsed)
      : sources_(sources),
        parsed_(std::move(parsed)),
        notifier_(sources.environment, getpid()) {
    woken_by_loss = &signals_;
  }
  ~Daemon() { woken_by_loss = nullptr; }

  int Run();

 private:
  // Each returns the exit code if the daemon's life ends in it, else -1.
  int Load();
  int ServeUntilSignal();
  int Drain();
  // Signals::Wait(), with signs of life for a service manager meanwhile.
  Signals::Event Wait(absl::Duration timeout);
  // Whether they may be given: nothing stands still that should move.
  bool Moves() const;
  // Lets others look elsewhere; ends the process on a further signal.
  void WaitBeforeDrain();
  static void StopAtOnceOn(const Signals::Event& event);
  // Lets the server be ready when its cache is warm, or when it has waited long
  // enough.
  void LookAtWarmup();
  void BecomeReady();
  void BeginWarmup();

  // SIGHUP. Takes over all that it may, or says why nothing.
  void Reload();
  absl::Status TryReload();
  // All of them or none; see server.reload_timeout. A signal to end that comes
  // meanwhile is obeyed at once.
  absl::Status ReplaceQuotas(std::vector<TenantShare> quotas);

  const ConfigSources& sources_;
  ParsedConfig parsed_;  // in force
  const ServerConfig& config_ = parsed_.config;
  Signals signals_;
  ServiceNotifier notifier_;
  std::atomic<bool> broken_{false};
  std::unique_ptr<KvasirServer> server_;
  GenerationBackend* backend_ = nullptr;  // the server's

  std::optional<StartWarmup> warmup_;  // while anybody cares for its end
  bool ready_ = false;
  bool draining_ = false;
  bool reload_waits_ = false;  // for the model to be loaded
  Signals::Event kept_;        // came amid a reload
  absl::Duration ready_by_ = absl::InfiniteDuration();  // steady
};

int Daemon::Run() {
  absl::StatusOr<std::unique_ptr<KvasirServer>> server =
      KvasirServer::Start(config_, [this] {
        broken_ = true;
        signals_.Wake();
      });
  if (!server.ok()) {
    Log(LogLevel::kError, std::string(server.status().message()));
    return 1;
  }
  server_ = *std::move(server);
  if (const int code = Load(); code >= 0) return code;
  const int served = ServeUntilSignal();
  const int drained = Drain();
  return served != 0 ? served : drained;
}

int Daemon::Load() {
  Log(LogLevel::kInfo, "loading the model",
      {{"path", ModelPaths(config_.engine)},
       {"grpc", server_->grpc_address().ToString()},
       {"metrics", server_->metrics_address().ToString()}});
  notifier_.Status("loading the model");
  EngineOptions options = config_.engine;
  // The server outlives the engine, but not its own pointer here.
  KvasirServer* const server = server_.get();
  options.size_cache = [server](const CacheSizeQuery& query) {
    return server->SizeCache(query);
  };
  options.hold_weights = [server](int64_t bytes) {
    return server->HoldWeights(bytes);
  };
  ModelLoad load(
      std::move(options),
      [this](int64_t done, int64_t total) {
        server_->SetLoadProgress(done, total);
      },
      [this] { signals_.Wake(); });
  while (!load.done()) {
    const Signals::Event event = Wait(absl::InfiniteDuration());
    if (event.signal == SIGHUP) reload_waits_ = true;
    if (event.signal == 0 || event.signal == SIGHUP) continue;
    Log(LogLevel::kInfo, "stopping while the model loads",
        {{"signal", NameOf(event.signal)}});
    notifier_.Stopping("stopping while the model loads");
    load.Abandon();
    // Nothing is half done that anybody could miss.
    if (!load.WaitDone(kAbandonGrace)) _exit(0);
    return 0;
  }
  absl::StatusOr<std::unique_ptr<Engine>> engine = load.Take();
  if (!engine.ok()) {
    Log(LogLevel::kError,
        absl::StrCat("cannot serve ", ModelPaths(config_.engine), ": ",
                     WithOptionNames(engine.status())));
    return 1;
  }
  std::unique_ptr<GenerationBackend> backend =
      MakeEngineBackend(*std::move(engine));
  backend_ = backend.get();
  const bool warms = config_.warm.request.prompts_size() > 0;
  if (warms) server_->HoldReady();
  server_->Serve(std::move(backend));
  LogChat(*backend_);
  if (!warms) {
    BecomeReady();
    return -1;
  }
  ready_by_ = Clock::Steady().Now() + config_.warm_deadline;
  notifier_.Status("warming the cache");
  BeginWarmup();
  return -1;
}

void Daemon::BeginWarmup() {
  warmup_.emplace(&config_.warm, [this] { signals_.Wake(); });
  Log(LogLevel::kInfo, "warming the cache",
      {{"prefixes", absl::StrCat(config_.warm.request.prompts_size())},
       {"deadline", absl::FormatDuration(config_.warm_deadline)}});
  warmup_->Begin(*backend_);
  LookAtWarmup();
}

void Daemon::BecomeReady() {
  ready_ = true;
  notifier_.Ready(absl::StrCat("serving ", ModelNames(*backend_), " on ",
                               server_->grpc_address().ToString()));
  server_->ReleaseReady();
  LogReady(*server_, *backend_, *FirstVersion(*backend_));
}

void Daemon::LookAtWarmup() {
  if (!warmup_.has_value()) return;
  if (warmup_->ended()) {
    warmup_->LogEnd();
    warmup_.reset();
    if (!ready_) BecomeReady();
  } else if (!ready_ && Clock::Steady().Now() >= ready_by_) {
    warmup_->LogDeadline(config_.warm_deadline);
    BecomeReady();
  }
}

bool Daemon::Moves() const {
  // A load and a drain have limits of their own.
  return backend_ == nullptr || draining_ || server_->state().healthy();
}

Signals::Event Daemon::Wait(absl::Duration timeout) {
  const absl::Duration deadline = Clock::Steady().Now() + timeout;
  while (true) {
    const absl::Duration until = std::min(deadline, notifier_.next_sign());
    const Signals::Event event = signals_.Wait(
        std::max(until - Clock::Steady().Now(), absl::ZeroDuration()));
    const absl::Duration now = Clock::Steady().Now();
    if (Moves()) {
      notifier_.GiveSign(now);
    } else if (now >= notifier_.next_sign()) {
      notifier_.SkipSign(now);
    }
    if (event.signal != 0 || event.woken || now >= deadline) return event;
  }
}

void Daemon::Reload() {
  Log(LogLevel::kInfo, "reading the configuration again");
  notifier_.Reloading(Clock::Steady().Now());
  const absl::Status status = TryReload();
  server_->state().CountReload(status.ok(), absl::Now());
  if (status.ok()) {
    Log(LogLevel::kInfo, "the configuration is in force");
  } else {
    Log(LogLevel::kError,
        absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status)
            ? "the configuration cannot be taken over, the old one stays"
            : "the configuration is not in order, the old one stays",
        {{"reason", std::string(status.message())}});
  }
  // A manager waits for this after each reload, whatever came of it.
  if (ready_) {
    notifier_.Ready(status.ok() ? "serving, the configuration is in force"
                                : "serving, the new configuration is faulty");
  }
}

absl::Status Daemon::ReplaceQuotas(std::vector<TenantShare> quotas) {
  const auto change =
      std::make_shared<QuotaChange>([this] { signals_.Wake(); });
  backend_->SetTenantQuotas(std::move(quotas), change);
  const absl::Duration deadline =
      Clock::Steady().Now() + config_.reload_timeout;
  while (true) {
    if (const auto end = change->end(); end.has_value()) {
      return end->ok() ? *end
                       : absl::Status(end->code(), WithOptionNames(*end));
    }
    const bool late = Clock::Steady().Now() >= deadline;
    const bool ends = kept_.signal != 0 && kept_.signal != SIGHUP;
    if ((late || ends) && change->CallOff().ok()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "--tenant-quota: wanted the engine to take the quotas over within ",
          absl::FormatDuration(config_.reload_timeout),
          " (server.reload_timeout), found ",
          ends ? "a signal to end" : "it in one step all that time",
          "; nothing of the new configuration applies"));
    }
    // Past the deadline the engine is at it, and says so in a moment.
    const Signals::Event event = Wait(late ? absl::InfiniteDuration()
                                           : deadline - Clock::Steady().Now());
    if (ends) {
      StopAtOnceOn(event);
    } else if (event.signal != 0) {
      kept_ = event;
    }
  }
}

absl::Status Daemon::TryReload() {
  ASSIGN_OR_RETURN(ParsedConfig fresh, ParseConfig(sources_));
  ConfigChange change = CompareConfig(parsed_.values, fresh.values);
  const SecretPaths& paths = fresh.config.secrets;
  const bool fits = server_->secrets().Fits(paths);
  std::optional<Secrets::Staged> secrets;
  if (fits) {
    ASSIGN_OR_RETURN(secrets, server_->secrets().ReadAgain(paths));
  }
  // The last that may fail, and so the first that is done.
  if (change.Takes("cache.tenant_quotas")) {
    RETURN_IF_ERROR(ReplaceQuotas(fresh.config.engine.tenant_quotas));
  }
  if (fits) {
    server_->secrets().Apply(*std::move(secrets));
  } else {
    change.needs_restart.push_back("whether there is TLS or are tokens");
  }
  if (change.Takes("server.tenant_limits")) {
    server_->SetTenantLimits(fresh.config.tenant_limits);
  }
  SetLogging(fresh.config.log_format, fresh.config.log_level);
  if (!change.needs_restart.empty()) {
    Log(LogLevel::kWarning, "a changed option needs a restart",
        {{"options", absl::StrJoin(change.needs_restart, ",")}});
  }
  parsed_.values = AfterReload(parsed_.values, fresh.values);
  // It reads the old list.
  warmup_.reset();
  ServerConfig& config = parsed_.config;
  config.warm = std::move(fresh.config.warm);
  config.engine.tenant_quotas = std::move(fresh.config.engine.tenant_quotas);
  config.log_format = fresh.config.log_format;
  config.log_level = fresh.config.log_level;
  if (fits) config.secrets = paths;
  if (config.warm.request.prompts_size() > 0) {
    BeginWarmup();
  } else if (!ready_) {
    BecomeReady();
  }
  return absl::OkStatus();
}

int Daemon::ServeUntilSignal() {
  // Like one that comes now: what wakes this thread amid it is looked at below.
  if (reload_waits_) kept_.signal = SIGHUP;
  while (true) {
    const Signals::Event event =
        kept_.signal != 0
            ? std::exchange(kept_, {})
            : Wait(ready_ ? absl::InfiniteDuration()
                          : std::max(ready_by_ - Clock::Steady().Now(),
                                     absl::ZeroDuration()));
    if (event.signal == 0) LookAtWarmup();
    if (event.signal == SIGHUP) {
      Reload();
      LookAtWarmup();  // its word may have come meanwhile
    } else if (event.signal != 0) {
      Log(LogLevel::kInfo, "draining",
          {{"signal", NameOf(event.signal)},
           {"delay", absl::FormatDuration(config_.drain_delay)},
           {"timeout", absl::FormatDuration(config_.drain_timeout)}});
      WaitBeforeDrain();
      return 0;
    }
    if (listener_lost) {
      Log(LogLevel::kError,
          "gRPC cannot accept connections any more, ending so that whoever "
          "watches starts anew (see the limit on open files)");
      return 1;
    }
    if (broken_) {
      Log(LogLevel::kError, "the engine is broken, no request can survive");
      return 1;
    }
  }
}

void Daemon::WaitBeforeDrain() {
  notifier_.Stopping("draining");
  if (config_.drain_delay == absl::ZeroDuration()) return;
  server_->Leave();
  const absl::Duration deadline = Clock::Steady().Now() + config_.drain_delay;
  while (Clock::Steady().Now() < deadline && !broken_) {
    StopAtOnceOn(Wait(deadline - Clock::Steady().Now()));
  }
}

void Daemon::StopAtOnceOn(const Signals::Event& event) {
  if (event.signal == 0 || event.signal == SIGHUP) return;
  Log(LogLevel::kWarning, "stopping at once",
      {{"signal", NameOf(event.signal)}});
  _exit(kSignalExitBase + event.signal);
}

int Daemon::Drain() {
  draining_ = true;
  notifier_.Stopping("draining");
  if (warmup_.has_value()) warmup_->CallOff();
  server_->BeginDrain();
  std::atomic<bool> drained{false};
  std::thread drain([this, &drained] {
    const int64_t cut = server_->FinishDrain(config_.drain_timeout);
    if (cut > 0) {
      Log(LogLevel::kWarning, "the grace period is over",
          {{"cancelled", absl::StrCat(cut)}});
    }
    warmup_.reset();
    server_.reset();
    drained = true;
    signals_.Wake();
  });
  const absl::Duration patience = config_.drain_timeout + kStuckGrace;
  const absl::Duration deadline = Clock::Steady().Now() + patience;
  while (!drained) {
    const Signals::Event event = Wait(deadline - Clock::Steady().Now());
    StopAtOnceOn(event);
    if (Clock::Steady().Now() >= deadline && !drained) {
      Log(LogLevel::kError, "the engine does not end, giving up");
      _exit(1);
    }
  }
  drain.join();
  Log(LogLevel::kInfo, "stopped");
  return 0;
}

// Each connection takes a descriptor; the soft limit is for programs that use
// select(), which nothing here does.
void RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int RunDaemon(const ConfigSources& sources, ParsedConfig parsed) {
  SetLogging(parsed.config.log_format, parsed.config.log_level);
  RaiseFileLimit();
  gpr_set_log_function(&LogFromGrpc);
  return Daemon(sources, std::move(parsed)).Run();
}

}  // namespace kvasir
