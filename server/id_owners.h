#ifndef KVASIR_SERVER_ID_OWNERS_H_
#define KVASIR_SERVER_ID_OWNERS_H_

#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace kvasir {

// Which call a request id stands for. The engine frees an id a moment before
// the call that used it hears of its end, and a client's retry may take it in
// that moment; the old call must not cancel the new one by their common name.
//
// Any thread; one of the server's objects that cross threads. The engine is
// asked under the lock, since its answer and the owner have to agree. It does
// not wait there, and does not come back here.
class IdOwners {
 public:
  // Makes `owner` the id's owner if `submit()` is OK, in place of one whose
  // request has ended.
  absl::Status Take(std::string_view id, const void* owner,
                    absl::FunctionRef<absl::Status()> submit)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `cancel()` if the id is still `owner`'s.
  void IfOwner(std::string_view id, const void* owner,
               absl::FunctionRef<void()> cancel) ABSL_LOCKS_EXCLUDED(mu_);

  // The owner's request has ended; nothing if the id is another's.
  void Release(std::string_view id, const void* owner) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  absl::flat_hash_map<std::string, const void*> owners_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_ID_OWNERS_H_
