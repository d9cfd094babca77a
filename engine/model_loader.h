#ifndef KVASIR_ENGINE_MODEL_LOADER_H_
#define KVASIR_ENGINE_MODEL_LOADER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/engine.h"
#include "engine/model/token_set.h"
#include "engine/model/tokenizer.h"
#include "engine/model/transformer.h"

namespace kvasir {

// A model ready to compute, and what belongs to it. Members are destroyed from
// the last to the first: the transformer before its backend.
struct LoadedModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Transformer> transformer;
  KvLayout layout;      // of the blocks it reads and writes
  int32_t token_limit;  // ids below have an embedding, a logit, a tokenizer's
                        // place
  TokenSet tokens;      // those of them that have a token, too
  ModelInfo info;
};

// What a file says of its model before the weights are read. Plain value.
struct ModelOutline {
  int64_t weight_bytes = 0;
  KvLayout layout;  // of the blocks that it will read and write
  std::string tokenizer_digest;
};

// Opens and checks the file, makes the backend, loads tokenizer and weights.
// `options` must have passed CheckEngineOptions(). `admit`, if there is one, is
// asked before the weights are read. Errors are its own and those of the parts,
// with the file's name where they lack it.
absl::StatusOr<LoadedModel> LoadModel(
    const EngineOptions& options,
    const std::function<absl::Status(const ModelOutline&)>& admit = nullptr);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_LOADER_H_
