#ifndef KVASIR_ENGINE_BACKEND_FINITE_CHECK_H_
#define KVASIR_ENGINE_BACKEND_FINITE_CHECK_H_

#include "absl/status/status.h"

#include "engine/backend/tensor.h"

namespace kvasir {

// INVALID_ARGUMENT if `matrix` has an infinity or a NaN: among its weights if
// the type is a plain one, among the scales and mins of its blocks if it is
// quantized. Names the first one's place and bits. One such number spoils a
// whole output, and where activations are quantized it comes out as a plausible
// wrong one.
absl::Status CheckFinite(const HostMatrix& matrix);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_FINITE_CHECK_H_
