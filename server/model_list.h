#ifndef KVASIR_SERVER_MODEL_LIST_H_
#define KVASIR_SERVER_MODEL_LIST_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "engine/engine.h"

namespace kvasir {

// Between models whatever their paths are: ASCII's unit separator, which nobody
// types.
inline constexpr char kModelSeparator = '\x1f';

// "PATH" or "NAME=PATH", several with kModelSeparator between them, or with a
// comma where NAME= follows it, so that a path may have commas. A name has
// neither '/' nor ','. At least one.
//
// INVALID_ARGUMENT with what was wanted and found, without the option's name.
absl::StatusOr<std::vector<ModelSource>> ParseModels(std::string_view text);

}  // namespace kvasir

#endif  // KVASIR_SERVER_MODEL_LIST_H_
