#include "engine/model_set.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

std::string ShapeName(const KvLayout& layout) {
  return absl::StrCat(layout.layer_count, " layers of ", layout.kv_head_count,
                      " KV heads of ", layout.head_dim, ", ",
                      layout.block_tokens, " tokens, ",
                      layout.type == KvType::kF32 ? "f32" : "f16");
}

// As good as it is known before the file is read: 0 if it cannot be.
int64_t FileBytes(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// Counts several loads as one.
class JointProgress {
 public:
  explicit JointProgress(const EngineOptions& options) : options_(options) {
    for (const ModelSource& source : options.more_models) {
      ahead_ += FileBytes(source.path);
    }
  }

  bool Report(int64_t done, int64_t total) {
    total_ = total;
    return !options_.load_progress ||
           options_.load_progress(behind_ + done, behind_ + total + ahead_);
  }
  void BeginNext(const std::string& path) {
    behind_ += total_;
    ahead_ -= FileBytes(path);
  }

 private:
  const EngineOptions& options_;
  int64_t behind_ = 0;  // bytes of models that are loaded
  int64_t total_ = 0;   // and of the one that is being loaded
  int64_t ahead_ = 0;
};

absl::StatusOr<StartModel> LoadOne(EngineOptions options,
                                   absl::Span<const StartModel> before) {
  // A file of the wrong shape is refused before its weights are read.
  const auto admit = [before](const ModelOutline& outline) {
    return before.empty() ? absl::OkStatus()
                          : CheckSameShape(before.front().revision->layout,
                                           before.front().name, outline.layout);
  };
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel(options, admit));
  StartModel model{.name = loaded.info.name, .path = options.model_path};
  for (const StartModel& other : before) {
    if (other.revision->info.digest == loaded.info.digest) {
      model.revision = other.revision;
      return model;
    }
  }
  model.revision = std::make_shared<const LoadedModel>(std::move(loaded));
  return model;
}

}  // namespace

absl::Status CheckSameShape(const KvLayout& wanted, std::string_view whose,
                            const KvLayout& found) {
  if (found == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "wanted a model whose cache blocks have the shape of those of ",
      QuoteText(whose), " (", ShapeName(wanted), "), found ",
      ShapeName(found)));
}

absl::StatusOr<std::vector<StartModel>> LoadStartModels(
    const EngineOptions& options) {
  JointProgress progress(options);
  EngineOptions one = options;
  one.more_models.clear();
  one.load_progress = [&progress](int64_t done, int64_t total) {
    return progress.Report(done, total);
  };
  std::vector<StartModel> models;
  ASSIGN_OR_RETURN(StartModel first, LoadOne(one, models));
  models.push_back(std::move(first));
  for (const ModelSource& source : options.more_models) {
    progress.BeginNext(source.path);
    one.model_path = source.path;
    one.model_name = source.name;
    absl::StatusOr<StartModel> next = LoadOne(one, models);
    if (!next.ok()) {
      return absl::Status(
          next.status().code(),
          absl::StrCat(
              "more_models: ",
              QuoteText(source.name.empty() ? source.path : source.name), ": ",
              next.status().message()));
    }
    models.push_back(*std::move(next));
  }
  return models;
}

int64_t WeightBytes(absl::Span<const StartModel> models) {
  int64_t bytes = 0;
  for (size_t i = 0; i < models.size(); ++i) {
    const bool counted = std::any_of(
        models.begin(), models.begin() + i, [&](const StartModel& other) {
          return other.revision == models[i].revision;
        });
    if (!counted) bytes += models[i].revision->info.weight_bytes;
  }
  return bytes;
}

}  // namespace kvasir
