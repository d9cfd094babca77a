#ifndef KVASIR_ENGINE_MODEL_SET_H_
#define KVASIR_ENGINE_MODEL_SET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/kv_layout.h"
#include "engine/engine.h"
#include "engine/model_loader.h"

namespace kvasir {

// One of the models that an engine starts with. Plain value.
struct StartModel {
  std::string name;  // as clients call it
  std::string path;
  std::shared_ptr<const LoadedModel> revision;
};

// Loads the first model and then EngineOptions::more_models, in order. Weights
// that come twice, by digest, are kept once. `options` must have passed
// CheckEngineOptions().
//
// Errors are LoadModel()'s, and FAILED_PRECONDITION for a model whose cache
// blocks have another shape than the first one's; those of further models begin
// with "more_models: " and the model's name.
absl::StatusOr<std::vector<StartModel>> LoadStartModels(
    const EngineOptions& options);

// That the weights of all take together.
int64_t WeightBytes(absl::Span<const StartModel> models);

// One cache has blocks of one shape. FAILED_PRECONDITION with both shapes,
// without a field's name; `whose` are those that are wanted.
absl::Status CheckSameShape(const KvLayout& wanted, std::string_view whose,
                            const KvLayout& found);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_SET_H_
