#ifndef KVASIR_ENGINE_MODEL_MODEL_KEYS_H_
#define KVASIR_ENGINE_MODEL_MODEL_KEYS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "engine/model/gguf_file.h"

namespace kvasir {

// Reads the metadata keys that begin with a model's architecture, with their
// range checked. Keys are named without that prefix. A view of the file.
//
// Every error is INVALID_ARGUMENT with the whole key, what was wanted and what
// was found.
class ModelKeys {
 public:
  ModelKeys(const GgufFile* file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  // "block_count" -> "llama.block_count".
  std::string Name(const std::string& key) const {
    return architecture_ + "." + key;
  }

  absl::StatusOr<int32_t> Int(const std::string& key, int64_t least,
                              int64_t most) const;
  absl::StatusOr<double> Float(const std::string& key, double least,
                               double most) const;

  // The same for keys that a file may leave out.
  absl::StatusOr<int32_t> IntOr(const std::string& key, int64_t least,
                                int64_t most, int64_t otherwise) const;
  absl::StatusOr<double> FloatOr(const std::string& key, double least,
                                 double most, double otherwise) const;
  absl::StatusOr<std::string> StringOr(const std::string& key,
                                       const std::string& otherwise) const;

  absl::Status Invalid(const std::string& key, const std::string& wanted,
                       const std::string& found) const;

 private:
  const GgufFile* file_;
  std::string architecture_;
};

// UNIMPLEMENTED naming the first tensor that is no part of a Llama-family
// decoder: leaving one out silently would give wrong answers.
absl::Status RefuseUnknownTensors(const GgufFile& file, int32_t layer_count);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_MODEL_KEYS_H_
