// How often a trace of prefix blocks hits a cache of a given size:
//
//   cache_replay --trace FILE.jsonl --capacity N [--policy NAME] [--json]
//
// Prints the hit ratio, hits per block of all requests, of the policy (or of
// every one) beside LRU, LFU and Belady's optimum; see trace_replay.h for what
// is counted. In JSON `hit_ratio` is that of the policy, by default of the one
// that the daemon uses. Exit code 1 and one line for input that makes no sense.
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "CLI/CLI.hpp"
#include "cache/base/status_macros.h"
#include "tests/bench/block_trace.h"
#include "tests/bench/replay_policies.h"
#include "tests/bench/trace_replay.h"

namespace kvasir::bench {
namespace {

struct Arguments {
  std::string trace;
  int64_t capacity = 0;
  std::string policy;  // empty: all
  bool json = false;
};

using Results = std::vector<std::pair<std::string, ReplayResult>>;

absl::StatusOr<Results> ReplayAll(const BlockTrace& trace,
                                  const Arguments& arguments) {
  std::vector<std::string> names;
  if (arguments.policy.empty()) {
    for (const absl::string_view name : kReplayPolicies) {
      names.emplace_back(name);
    }
  } else {
    names = {arguments.policy};
    for (const char* other : {"lru", "lfu", "belady"}) {
      if (!absl::c_linear_search(names, other)) names.push_back(other);
    }
  }
  Results results;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(auto policy, MakeReplayPolicy(name, trace));
    ASSIGN_OR_RETURN(const ReplayResult result,
                     Replay(trace, arguments.capacity, std::move(policy)));
    results.emplace_back(name, result);
  }
  return results;
}

void PrintTable(const Results& results) {
  std::printf("%-10s %10s %12s %10s\n", "policy", "hits", "references",
              "hit ratio");
  for (const auto& [name, result] : results) {
    std::printf("%-10s %10lld %12lld %9.2f%%\n", name.c_str(),
                static_cast<long long>(result.hits),
                static_cast<long long>(result.references),
                100 * result.hit_ratio());
  }
}

void PrintJson(const Arguments& arguments, const Results& results) {
  nlohmann::json policies;
  for (const auto& [name, result] : results) {
    policies[name] = {{"hits", result.hits}, {"hit_ratio", result.hit_ratio()}};
  }
  const auto& [name, result] = results.front();
  const nlohmann::json json = {
      {"trace", arguments.trace}, {"capacity", arguments.capacity},
      {"policy", name},           {"references", result.references},
      {"hits", result.hits},      {"hit_ratio", result.hit_ratio()},
      {"policies", policies}};
  std::printf("%s\n", json.dump(2).c_str());
}

absl::Status Run(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BlockTrace trace, ReadBlockTraceFile(arguments.trace));
  ASSIGN_OR_RETURN(const Results results, ReplayAll(trace, arguments));
  arguments.json ? PrintJson(arguments, results) : PrintTable(results);
  return absl::OkStatus();
}

}  // namespace
}  // namespace kvasir::bench

int main(int argc, char** argv) {
  CLI::App app("Replays a trace of prefix blocks through the cache's policies");
  kvasir::bench::Arguments arguments;
  app.add_option("--trace", arguments.trace, "JSON lines with hash_ids")
      ->required();
  app.add_option("--capacity", arguments.capacity, "blocks")->required();
  app.add_option("--policy", arguments.policy,
                 "adaptive, lru, lfu, slru, gdsf or belady; default: all");
  app.add_flag("--json", arguments.json, "print JSON instead of a table");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = kvasir::bench::Run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
