#ifndef KVASIR_ENGINE_TEMPLATE_GLOBALS_H_
#define KVASIR_ENGINE_TEMPLATE_GLOBALS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "engine/template/runtime.h"

namespace kvasir::jinja {

// range, dict, namespace, cycler, joiner, and what chat templates have beside
// them: raise_exception(message), which ends the rendering with
// INVALID_ARGUMENT and the message, and strftime_now(format).
FunctionTable Globals();

// Of a message that a template raises; what is longer is cut.
inline constexpr size_t kMaxRaisedBytes = 1024;

// `time` as strftime() writes it in UTC and English. INVALID_ARGUMENT for an
// unknown conversion; charged conversion by conversion.
absl::StatusOr<std::string> FormatTime(Budget& budget, std::string_view format,
                                       absl::Time time);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_GLOBALS_H_
