#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "server/cli/commands.h"
#include "server/cli/format.h"
#include "server/cli/generation.h"
#include "server/cli/prefix_report.h"
#include "server/config_values.h"

namespace kvasir::cli {
namespace {

// An engine step may take its time; each of these calls waits for one.
constexpr absl::Duration kPrefixCall = absl::Seconds(30);

// Which prefixes are meant.
struct FilterOptions {
  std::string model;
  std::string version;
  std::optional<std::string> salt;
  std::optional<std::string> salt_hash;
  bool pinned = false;
  int64_t min_tokens = 0;

  void AddTo(CLI::App& command) {
    command.add_option("--model", model, "Only of this model");
    command.add_option("--version", version,
                       "Only of this version: its label or fingerprint");
    auto* by_salt =
        command.add_option("--salt", salt, "Only of the tenant with this salt");
    command
        .add_option("--salt-hash", salt_hash,
                    "The same by what `kvasir cache ls` calls TENANT")
        ->excludes(by_salt);
    command.add_flag("--pinned", pinned, "Only pinned ones");
    command.add_option("--min-tokens", min_tokens, "Only so long or longer")
        ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  }
  bool Empty() const {
    return model.empty() && version.empty() && !salt.has_value() &&
           !salt_hash.has_value() && !pinned && min_tokens == 0;
  }
  void Fill(v1::PrefixFilter& filter) const {
    filter.set_version(version);
    if (salt.has_value()) filter.set_salt(*salt);
    if (salt_hash.has_value()) filter.set_salt_hash(*salt_hash);
    if (pinned) filter.set_pinned(true);
    filter.set_min_tokens(min_tokens);
  }
};

struct ListOptions {
  FilterOptions filter;
  std::string order = "last_hit";
  int32_t limit = 50;
};

int List(const ListOptions& options, const Globals& globals) {
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  v1::ListPrefixesRequest request;
  request.set_model(options.filter.model);
  options.filter.Fill(*request.mutable_filter());
  request.set_order_by(options.order);
  v1::ListPrefixesResponse all;
  do {
    if (options.limit > 0) {
      request.set_page_size(options.limit - all.prefixes_size());
    }
    grpc::ClientContext context;
    client.SetDeadline(context, kPrefixCall);
    v1::ListPrefixesResponse page;
    const grpc::Status status =
        client.admin().ListPrefixes(&context, request, &page);
    if (!status.ok()) return client.Report(status);
    all.mutable_prefixes()->MergeFrom(page.prefixes());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() &&
           (options.limit == 0 || all.prefixes_size() < options.limit));
  all.set_next_page_token(request.page_token());
  if (globals.json) {
    PrintJson(all, false);
  } else {
    WriteText(RenderPrefixes(all, absl::Now(), StdoutIsTerminal()));
  }
  if (!request.page_token().empty()) {
    Note(globals, "There are more; --limit 0 shows all.");
  }
  return kExitOk;
}

int Show(const std::string& id, const Globals& globals) {
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  grpc::ClientContext context;
  client.SetDeadline(context, kPrefixCall);
  v1::GetPrefixRequest request;
  request.set_prefix_id(id);
  v1::GetPrefixResponse answer;
  const grpc::Status status =
      client.admin().GetPrefix(&context, request, &answer);
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(answer.prefix(), false);
  } else {
    WriteText(RenderPrefix(answer.prefix(), absl::Now()));
  }
  return kExitOk;
}

int ReportPin(const v1::Prefix& prefix, const Globals& globals) {
  if (globals.json) {
    PrintJson(prefix, false);
  } else {
    WriteText(DescribePin(prefix, absl::Now()) + "\n");
  }
  return kExitOk;
}

int Pin(const std::string& id, const std::string& ttl, const Globals& globals) {
  v1::PinPrefixRequest request;
  request.set_prefix_id(id);
  if (!ttl.empty()) *request.mutable_ttl() = ReadTtl(ttl);
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  grpc::ClientContext context;
  client.SetDeadline(context, kPrefixCall);
  v1::PinPrefixResponse answer;
  const grpc::Status status =
      client.admin().PinPrefix(&context, request, &answer);
  if (!status.ok()) return client.Report(status);
  return ReportPin(answer.prefix(), globals);
}

int Unpin(const std::string& id, const Globals& globals) {
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  grpc::ClientContext context;
  client.SetDeadline(context, kPrefixCall);
  v1::UnpinPrefixRequest request;
  request.set_prefix_id(id);
  v1::UnpinPrefixResponse answer;
  const grpc::Status status =
      client.admin().UnpinPrefix(&context, request, &answer);
  if (!status.ok()) return client.Report(status);
  return ReportPin(answer.prefix(), globals);
}

struct EvictOptions {
  std::vector<std::string> ids;
  FilterOptions filter;
  bool dry_run = false;
};

int Evict(const EvictOptions& options, const Globals& globals) {
  if (options.ids.empty() == options.filter.Empty()) {
    Complain("wanted either ids or options that say which prefixes are meant");
    return kExitUsage;
  }
  v1::EvictPrefixesRequest request;
  if (options.ids.empty()) {
    request.set_model(options.filter.model);
    options.filter.Fill(*request.mutable_filter());
  } else {
    request.mutable_ids()->mutable_ids()->Assign(options.ids.begin(),
                                                 options.ids.end());
  }
  request.set_dry_run(options.dry_run);
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  grpc::ClientContext context;
  client.SetDeadline(context, kPrefixCall);
  v1::EvictPrefixesResponse answer;
  const grpc::Status status =
      client.admin().EvictPrefixes(&context, request, &answer);
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(answer, false);
  } else {
    WriteText(DescribeEviction(answer, options.dry_run) + "\n");
  }
  return kExitOk;
}

void AddList(CLI::App& cache, Action& action) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* list = cache.add_subcommand("ls", "List the prefixes in it");
  options->filter.AddTo(*list);
  list->add_option("--order", options->order,
                   "What comes first: by id, or the most hits, the longest, "
                   "the latest hit")
      ->check(CLI::IsMember({"key", "hits", "tokens", "last_hit"}))
      ->capture_default_str();
  list->add_option("--limit", options->limit, "Most lines; 0: all")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()))
      ->capture_default_str();
  list->callback([options, &action] {
    action = [options](const Globals& globals) {
      return List(*options, globals);
    };
  });
}

// A command with one id, of which the first digits are enough.
CLI::App* AddOfOne(CLI::App& cache, const char* name, const char* help,
                   std::string& id) {
  CLI::App* command = cache.add_subcommand(name, help);
  command->add_option("id", id, "Its id, or the first digits, at least 8")
      ->required();
  return command;
}

void AddPins(CLI::App& cache, Action& action) {
  auto pinned = std::make_shared<std::string>();
  auto ttl = std::make_shared<std::string>();
  CLI::App* pin =
      AddOfOne(cache, "pin", "Keep a prefix, whatever room is needed", *pinned);
  pin->add_option("--ttl", *ttl, "For so long; default: until it is unpinned")
      ->type_name("TIME")
      ->check(CheckTtl);
  pin->callback([pinned, ttl, &action] {
    action = [pinned, ttl](const Globals& globals) {
      return Pin(*pinned, *ttl, globals);
    };
  });
  auto unpinned = std::make_shared<std::string>();
  CLI::App* unpin = AddOfOne(cache, "unpin",
                             "End a pin; the content stays cached", *unpinned);
  unpin->callback([unpinned, &action] {
    action = [unpinned](const Globals& globals) {
      return Unpin(*unpinned, globals);
    };
  });
}

}  // namespace

void AddPrefixCommands(CLI::App& cache, Action& action) {
  AddList(cache, action);
  auto shown = std::make_shared<std::string>();
  CLI::App* show =
      AddOfOne(cache, "show", "All that is known of a prefix", *shown);
  show->callback([shown, &action] {
    action = [shown](const Globals& globals) { return Show(*shown, globals); };
  });
  AddPins(cache, action);
  auto options = std::make_shared<EvictOptions>();
  CLI::App* evict = cache.add_subcommand(
      "evict", "Drop prefixes by name, pinned ones too, or by what they are");
  evict->add_option("id", options->ids,
                    "Their ids, or the first digits, at least 8");
  options->filter.AddTo(*evict);
  evict->add_flag("--dry-run", options->dry_run,
                  "Only tell what would be dropped");
  evict->callback([options, &action] {
    action = [options](const Globals& globals) {
      return Evict(*options, globals);
    };
  });
}

}  // namespace kvasir::cli
