#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "server/cli/commands.h"
#include "server/cli/format.h"
#include "server/cli/generation.h"
#include "server/text.h"

namespace kvasir::cli {
namespace {

// An enum's value without its prefix, lower case.
std::string ShortName(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return absl::AsciiStrToLower(name);
}

int Models(const Globals& globals) {
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  v1::ListModelsRequest request;
  v1::ListModelsResponse all;
  do {
    grpc::ClientContext context;
    client.SetDeadline(context, kQuickCall);
    v1::ListModelsResponse page;
    const grpc::Status status =
        client.inference().ListModels(&context, request, &page);
    if (!status.ok()) return client.Report(status);
    all.mutable_models()->MergeFrom(page.models());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (globals.json) {
    PrintJson(all, false);
    return kExitOk;
  }
  Table table({{"NAME"},
               {"STATE"},
               {"ARCH"},
               {"QUANT"},
               {"WEIGHTS", true},
               {"LAYERS", true},
               {"CONTEXT", true},
               {"KV/TOKEN", true},
               {"KV TYPE"}});
  for (const v1::Model& model : all.models()) {
    table.AddRow({model.name(),
                  ShortName(v1::ModelState_Name(model.state()), "MODEL_STATE_"),
                  model.architecture(), model.quantization(),
                  FormatBytes(model.weight_bytes()),
                  absl::StrCat(model.layer_count()),
                  FormatCount(model.max_context()),
                  FormatBytes(model.kv_bytes_per_token()),
                  ShortName(v1::KvDtype_Name(model.kv_dtype()), "KV_DTYPE_")});
  }
  WriteText(table.Render(StdoutIsTerminal()));
  return kExitOk;
}

int Status(const Globals& globals) {
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  grpc::ClientContext context;
  client.SetDeadline(context, kQuickCall);
  v1::GetServerStatusResponse answer;
  const grpc::Status status =
      client.inference().GetServerStatus(&context, {}, &answer);
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(answer, false);
    return kExitOk;
  }
  const absl::Time start = absl::FromUnixSeconds(answer.start_time().seconds());
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"state",
       ShortName(v1::ServerState_Name(answer.state()), "SERVER_STATE_")},
      {"version", answer.version()},
      {"up", FormatSpan(absl::Now() - start)}};
  if (answer.load_total_bytes() > 0) {
    pairs.emplace_back(
        "loaded", absl::StrCat(FormatBytes(answer.load_done_bytes()), " of ",
                               FormatBytes(answer.load_total_bytes())));
  }
  for (const v1::Load& load : answer.loads()) {
    pairs.emplace_back("model", load.model());
    pairs.emplace_back(
        "requests",
        absl::StrCat(FormatCount(load.running_count()), " running, ",
                     FormatCount(load.waiting_count()), " waiting"));
    pairs.emplace_back(
        "KV cache",
        absl::StrCat(FormatPercent(load.kv_usage_ratio()), " in use, ",
                     FormatCount(load.used_kv_tokens()), " of ",
                     FormatCount(load.max_kv_tokens()),
                     " token places filled or held"));
    pairs.emplace_back("prefix hits", FormatPercent(load.hit_ratio()));
  }
  WriteText(RenderPairs(pairs));
  return kExitOk;
}

int Cancel(const std::vector<std::string>& ids, const std::string& reason,
           const Globals& globals) {
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  grpc::ClientContext context;
  client.SetDeadline(context, kQuickCall);
  v1::CancelGenerationRequest request;
  for (const std::string& id : ids) request.add_request_ids(id);
  request.set_reason(reason);
  v1::CancelGenerationResponse answer;
  const grpc::Status status =
      client.inference().CancelGeneration(&context, request, &answer);
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(answer, false);
    return kExitOk;
  }
  for (const std::string& id : answer.cancelled_ids()) WriteText(id + "\n");
  Note(globals, absl::StrCat(answer.cancelled_ids_size(), " of ", ids.size(),
                             " were in flight and are cancelled"));
  return kExitOk;
}

}  // namespace

void AddModelCommands(CLI::App& app, Action& action) {
  app.add_subcommand("models", "List the models that are served")
      ->callback([&action] { action = Models; });
  app.add_subcommand("status", "Show the server's state and load")
      ->callback([&action] { action = Status; });
  auto ids = std::make_shared<std::vector<std::string>>();
  auto reason = std::make_shared<std::string>();
  CLI::App* cancel = app.add_subcommand("cancel", "End requests by their ids");
  cancel->add_option("ids", *ids, "Request ids")->required();
  cancel->add_option("--reason", *reason, "Told to those who asked");
  cancel->callback([ids, reason, &action] {
    action = [ids, reason](const Globals& globals) {
      return Cancel(*ids, *reason, globals);
    };
  });
}

}  // namespace kvasir::cli
