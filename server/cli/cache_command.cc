#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

#include "server/cli/cache_report.h"
#include "server/cli/commands.h"
#include "server/cli/format.h"
#include "server/cli/generation.h"
#include "server/cli/interrupt.h"
#include "server/cli/progress_call.h"
#include "server/config_values.h"
#include "server/text.h"

namespace kvasir::cli {
namespace {

constexpr int kLinesPerHeader = 20;

struct StatsOptions {
  std::string model;
  bool watch = false;
  std::string interval = "1s";
};

grpc::Status ReadStats(Client& client, const StatsOptions& options,
                       v1::CacheStats& stats) {
  grpc::ClientContext context;
  client.SetDeadline(context, kQuickCall);
  v1::GetCacheStatsRequest request;
  request.set_model(options.model);
  v1::GetCacheStatsResponse answer;
  const grpc::Status status =
      client.admin().GetCacheStats(&context, request, &answer);
  stats = answer.stats();
  return status;
}

// A line per interval until Ctrl-C.
int Watch(Client& client, const StatsOptions& options, absl::Duration interval,
          const Globals& globals) {
  absl::Notification stop;
  const OnInterrupt end([&stop] {
    if (!stop.HasBeenNotified()) stop.Notify();
  });
  CacheWatch watch;
  for (int64_t line = 0;; ++line) {
    v1::CacheStats stats;
    const grpc::Status status = ReadStats(client, options, stats);
    if (!status.ok()) return client.Report(status);
    if (globals.json) {
      PrintJson(stats, true);
    } else {
      if (line % kLinesPerHeader == 0) WriteText(CacheWatch::Header());
      WriteText(watch.Line(stats));
    }
    if (stop.WaitForNotificationWithTimeout(interval)) return kExitOk;
  }
}

int Stats(const StatsOptions& options, const Globals& globals) {
  const absl::StatusOr<absl::Duration> interval =
      ParseDuration(options.interval);
  if (!interval.ok() || *interval < absl::Milliseconds(100)) {
    Complain("--interval: wanted a time of at least 100ms, found \"" +
             options.interval + "\"");
    return kExitUsage;
  }
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  if (options.watch) return Watch(client, options, *interval, globals);
  v1::CacheStats stats;
  const grpc::Status status = ReadStats(client, options, stats);
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(stats, false);
  } else {
    WriteText(RenderCacheStats(stats, StdoutIsTerminal()));
  }
  return kExitOk;
}

struct FlushOptions {
  std::string wait;
  std::optional<std::string> model;
  std::optional<std::string> version;
  std::optional<std::string> salt;
};

int Flush(const FlushOptions& options, const Globals& globals) {
  const std::string& wait = options.wait;
  v1::FlushCacheRequest request;
  request.set_scope(options.model.has_value()     ? v1::FLUSH_SCOPE_MODEL
                    : options.version.has_value() ? v1::FLUSH_SCOPE_VERSION
                    : options.salt.has_value()    ? v1::FLUSH_SCOPE_SALT
                                                  : v1::FLUSH_SCOPE_ALL);
  request.set_value(options.model.value_or(
      options.version.value_or(options.salt.value_or(""))));
  absl::Duration patience = kQuickCall;
  if (!wait.empty()) {
    const absl::StatusOr<absl::Duration> time = ParseDuration(wait);
    if (!time.ok()) {
      Complain("--wait: " + std::string(time.status().message()));
      return kExitUsage;
    }
    patience += *time;
    const int64_t nanos = absl::ToInt64Nanoseconds(*time);
    request.mutable_wait()->set_seconds(nanos / 1000000000);
    request.mutable_wait()->set_nanos(static_cast<int32_t>(nanos % 1000000000));
  }
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  grpc::ClientContext context;
  client.SetDeadline(context, patience);
  v1::FlushCacheResponse answer;
  const grpc::Status status =
      client.admin().FlushCache(&context, request, &answer);
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(answer, false);
  } else {
    WriteText(absl::StrCat("flushed ", Plural(answer.freed_blocks(), "block"),
                           ", ", FormatBytes(answer.freed_bytes()), "\n"));
  }
  return kExitOk;
}

struct ResizeOptions {
  std::string size;
  bool blocks = false;
  std::string strategy = "evict";
  bool dry_run = false;
};

// "60%" is a share of what the server has left, and "8GiB" are bytes.
std::optional<v1::ResizeCacheRequest> MakeResize(const ResizeOptions& options) {
  v1::ResizeCacheRequest request;
  const auto complain = [](const absl::Status& status) {
    Complain("size: " + std::string(status.message()));
    return std::nullopt;
  };
  if (options.blocks) {
    const absl::StatusOr<int64_t> blocks =
        ParseCount(options.size, 1, std::numeric_limits<int32_t>::max());
    if (!blocks.ok()) return complain(blocks.status());
    request.set_blocks(*blocks);
  } else if (absl::EndsWith(options.size, "%")) {
    // Of a limit of 10,000 "bytes" the share is exact to a hundredth percent.
    const absl::StatusOr<int64_t> share =
        ParseSize(options.size, [] { return int64_t{10000}; });
    if (!share.ok()) return complain(share.status());
    request.set_ratio(static_cast<double>(*share) / 10000);
  } else {
    const absl::StatusOr<int64_t> bytes =
        ParseSize(options.size, [] { return int64_t{0}; });
    if (!bytes.ok()) return complain(bytes.status());
    request.set_bytes(*bytes);
  }
  request.set_strategy(options.strategy == "wait" ? v1::RESIZE_STRATEGY_WAIT
                       : options.strategy == "preempt"
                           ? v1::RESIZE_STRATEGY_PREEMPT
                           : v1::RESIZE_STRATEGY_EVICT);
  request.set_dry_run(options.dry_run);
  return request;
}

int Resize(const ResizeOptions& options, const Globals& globals) {
  const std::optional<v1::ResizeCacheRequest> request = MakeResize(options);
  if (!request.has_value()) return kExitUsage;
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  const auto [status, report] = Follow<v1::ResizeCacheResponse>(
      client,
      [&](grpc::ClientContext* context) {
        return client.admin().ResizeCache(context, *request);
      },
      [&](const v1::ResizeCacheResponse& news) {
        if (news.progress().phase() == "done" || options.dry_run) return;
        Note(globals, DescribeResize(news));
      });
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(report, false);
  } else {
    WriteText(DescribeResize(report) + "\n");
  }
  return kExitOk;
}

}  // namespace

void AddCacheCommands(CLI::App& app, Action& action) {
  CLI::App* cache = app.add_subcommand("cache", "Look at the KV cache");
  cache->require_subcommand(1);
  auto options = std::make_shared<StatsOptions>();
  CLI::App* stats = cache->add_subcommand("stats", "What it holds");
  stats->add_option("--model", options->model,
                    "Model to ask; default: the first one");
  stats->add_flag("--watch", options->watch, "A line per interval");
  stats
      ->add_option("--interval", options->interval,
                   "Time between lines of --watch")
      ->capture_default_str();
  stats->callback([options, &action] {
    action = [options](const Globals& globals) {
      return Stats(*options, globals);
    };
  });
  auto resizing = std::make_shared<ResizeOptions>();
  CLI::App* resize = cache->add_subcommand(
      "resize", "Change its size while requests run; Ctrl-C calls it off");
  resize
      ->add_option("size", resizing->size,
                   "512MiB, 8GiB, or 60% of what the server's memory limit "
                   "leaves for it")
      ->required();
  resize->add_flag("--blocks", resizing->blocks, "The size counts blocks");
  resize
      ->add_option("--strategy", resizing->strategy,
                   "What running requests that hold too much do: wait (nothing "
                   "changes until they fit), evict (cached content goes at "
                   "once) or preempt (the youngest give way)")
      ->check(CLI::IsMember({"wait", "evict", "preempt"}))
      ->capture_default_str();
  resize->add_flag("--dry-run", resizing->dry_run,
                   "Only tell what would be evicted, preempted, waited for");
  resize->callback([resizing, &action] {
    action = [resizing](const Globals& globals) {
      return Resize(*resizing, globals);
    };
  });
  AddVersionCommands(*cache, action);
  AddWarmCommand(*cache, action);
  AddPrefixCommands(*cache, action);
  auto flushing = std::make_shared<FlushOptions>();
  CLI::App* flush = cache->add_subcommand(
      "flush", "Drop what no request holds, pinned prefixes too");
  auto* model =
      flush->add_option("--model", flushing->model, "Only of this model");
  auto* version =
      flush
          ->add_option("--version", flushing->version,
                       "Only of this version: its label or fingerprint")
          ->excludes(model);
  flush
      ->add_option("--salt", flushing->salt,
                   "Only of the tenant with this salt")
      ->excludes(model)
      ->excludes(version);
  flush
      ->add_option("--wait", flushing->wait,
                   "First let running requests end, so long at the most")
      ->type_name("TIME");
  flush->callback([flushing, &action] {
    action = [flushing](const Globals& globals) {
      return Flush(*flushing, globals);
    };
  });
}

}  // namespace kvasir::cli
