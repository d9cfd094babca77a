#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "engine/model/utf8.h"
#include "server/cli/commands.h"
#include "server/cli/format.h"
#include "server/cli/generation.h"
#include "server/cli/progress_call.h"
#include "server/cli/version_report.h"
#include "server/config_values.h"

namespace kvasir::cli {
namespace {

// An engine step may take its time; a move waits for one.
constexpr absl::Duration kMoveCall = absl::Seconds(30);

struct Named {
  std::string model;
  std::string label;
};

// "--model", which may stand before a subcommand as well as behind it; for all
// of them one value.
struct ModelOption {
  std::string value;
  CLI::Option* before = nullptr;

  void AddTo(CLI::App& command, const char* help) {
    command.add_option("--model", value, help)
        ->check([given = before](const std::string&) {
          return given->count() == 0
                     ? std::string()
                     : std::string(
                           "wanted once, found before and behind the "
                           "subcommand");
        });
  }
};
using SharedModel = std::shared_ptr<ModelOption>;

struct CreateOptions {
  std::string label;
  std::string path;
  int32_t warm = 0;
  std::string quota;
};

int List(const std::string& model, const Globals& globals) {
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  v1::ListCacheVersionsRequest request;
  request.set_model(model);
  v1::ListCacheVersionsResponse all;
  do {
    grpc::ClientContext context;
    client.SetDeadline(context, kQuickCall);
    v1::ListCacheVersionsResponse page;
    const grpc::Status status =
        client.admin().ListCacheVersions(&context, request, &page);
    if (!status.ok()) return client.Report(status);
    all.mutable_versions()->MergeFrom(page.versions());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (globals.json) {
    PrintJson(all, false);
  } else {
    WriteText(RenderVersions(all, absl::Now(), StdoutIsTerminal()));
  }
  return kExitOk;
}

std::optional<v1::CreateCacheVersionRequest> MakeCreate(
    const CreateOptions& options, const std::string& model) {
  v1::CreateCacheVersionRequest request;
  request.set_model(model);
  request.set_label(options.label);
  request.set_model_path(options.path);
  request.set_warm_prefix_count(options.warm);
  if (options.quota.empty()) return request;
  // The server wants bytes; a share of nothing would be no quota.
  const absl::StatusOr<int64_t> bytes = ParseSize(options.quota, [&options] {
    return absl::StatusOr<int64_t>(absl::InvalidArgumentError(
        absl::StrCat("wanted bytes, such as 512MiB, found the share ",
                     QuoteText(options.quota))));
  });
  if (!bytes.ok()) {
    Complain("--quota: " + std::string(bytes.status().message()));
    return std::nullopt;
  }
  request.set_quota_bytes(*bytes);
  return request;
}

int Create(const CreateOptions& options, const std::string& model,
           const Globals& globals) {
  const std::optional<v1::CreateCacheVersionRequest> request =
      MakeCreate(options, model);
  if (!request.has_value()) return kExitUsage;
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  const auto [status, report] = Follow<v1::CreateCacheVersionResponse>(
      client,
      [&](grpc::ClientContext* context) {
        return client.admin().CreateCacheVersion(context, *request);
      },
      [&](const v1::CreateCacheVersionResponse& news) {
        // The last step comes before the version that it has made.
        if (news.has_version() || news.progress().phase() == "done") return;
        Note(globals, DescribeCreation(news));
      });
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(report.version(), false);
    return kExitOk;
  }
  WriteText(DescribeCreation(report) + "\n");
  Note(globals, absl::StrCat("to give it to all new requests: kvasir cache "
                             "versions activate ",
                             Visible(report.version().label())));
  return kExitOk;
}

// One call that moves a version and answers with it.
template <typename Request, typename Answer>
int Move(const Globals& globals, const Request& request,
         grpc::Status (v1::CacheAdmin::Stub::*call)(grpc::ClientContext*,
                                                    const Request&, Answer*),
         std::string (*describe)(const v1::CacheVersion&)) {
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  grpc::ClientContext context;
  client.SetDeadline(context, kMoveCall);
  Answer answer;
  const grpc::Status status =
      (client.admin().*call)(&context, request, &answer);
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(answer.version(), false);
  } else {
    WriteText(describe(answer.version()) + "\n");
  }
  return kExitOk;
}

std::string DescribeActive(const v1::CacheVersion& version) {
  return absl::StrCat("new requests to ", Visible(version.model()), " get ",
                      Visible(version.label()));
}

template <typename Request>
Request Naming(const Named& named) {
  Request request;
  request.set_model(named.model);
  request.set_version(named.label);
  return request;
}

int Activate(const Named& named, const Globals& globals) {
  return Move(globals, Naming<v1::ActivateCacheVersionRequest>(named),
              &v1::CacheAdmin::Stub::ActivateCacheVersion, DescribeActive);
}

int RollBack(const std::string& model, const Globals& globals) {
  v1::RollbackCacheVersionRequest request;
  request.set_model(model);
  return Move(
      globals, request, &v1::CacheAdmin::Stub::RollbackCacheVersion,
      +[](const v1::CacheVersion& version) {
        return DescribeActive(version) + " again";
      });
}

int Delete(const Named& named, const Globals& globals) {
  return Move(globals, Naming<v1::DeleteCacheVersionRequest>(named),
              &v1::CacheAdmin::Stub::DeleteCacheVersion, DescribeDeletion);
}

void AddCreate(CLI::App& versions, const SharedModel& model, Action& action) {
  auto options = std::make_shared<CreateOptions>();
  CLI::App* create = versions.add_subcommand(
      "create", "Make another one beside those that serve; Ctrl-C gives it up");
  model->AddTo(*create,
               "Model that it is a version of; default: the first one");
  create->add_option("--label", options->label,
                     "What to call it; default: from its fingerprint");
  create->add_option("--path", options->path,
                     "Weights file on the server's machine; default: the "
                     "weights of the active version");
  create
      ->add_option("--warm", options->warm,
                   "Compute so many of the active version's hottest prefixes "
                   "in it first")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()));
  create
      ->add_option("--quota", options->quota,
                   "Most that it keeps of what no request holds; default: all")
      ->type_name("SIZE");
  create->callback([options, model, &action] {
    action = [options, model](const Globals& globals) {
      return Create(*options, model->value, globals);
    };
  });
}

// A move of one version that is named.
void AddMove(CLI::App& versions, const SharedModel& model, Action& action,
             const char* name, const char* help,
             int (*move)(const Named&, const Globals&)) {
  auto label = std::make_shared<std::string>();
  CLI::App* command = versions.add_subcommand(name, help);
  command->add_option("label", *label, "Its label or fingerprint")->required();
  model->AddTo(*command, "Model that it is a version of; default: any");
  command->callback([label, model, move, &action] {
    action = [label, model, move](const Globals& globals) {
      return move({model->value, *label}, globals);
    };
  });
}

}  // namespace

void AddVersionCommands(CLI::App& cache, Action& action) {
  CLI::App* versions = cache.add_subcommand(
      "versions", "List the versions of models, make others, change over");
  versions->require_subcommand(0, 1);
  auto model = std::make_shared<ModelOption>();
  model->before = versions->add_option("--model", model->value,
                                       "Only of this model; default: all");
  // Runs after a subcommand's own, if there is one.
  versions->callback([versions, model, &action] {
    if (!versions->get_subcommands().empty()) return;
    action = [model](const Globals& globals) {
      return List(model->value, globals);
    };
  });
  AddCreate(*versions, model, action);
  AddMove(*versions, model, action, "activate",
          "Give it to all new requests that name none; running ones end where "
          "they began",
          Activate);
  AddMove(*versions, model, action, "delete",
          "Retire it; its memory goes with its last request", Delete);
  CLI::App* rollback = versions->add_subcommand(
      "rollback", "Activate the one that was active before");
  model->AddTo(*rollback, "Model to roll back; default: the first one");
  rollback->callback([model, &action] {
    action = [model](const Globals& globals) {
      return RollBack(model->value, globals);
    };
  });
}

}  // namespace kvasir::cli
