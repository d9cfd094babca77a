#ifndef KVASIR_ENGINE_SUBMISSION_H_
#define KVASIR_ENGINE_SUBMISSION_H_

#include <memory>

#include "absl/time/time.h"

#include "engine/cancel_flag.h"
#include "engine/request.h"
#include "engine/token_sink.h"

namespace kvasir {

// A request on its way to the engine, with everything that belongs to it.
struct Submission {
  Request request;
  std::shared_ptr<TokenSink> sink;
  std::shared_ptr<CancelFlag> cancel;
  absl::Duration submitted;  // steady time
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_SUBMISSION_H_
