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

// Which call a request id stands for, from before the engine hears of it until
// its call has heard of the end. The engine frees an id a moment earlier;
// without this a client's retry could take it in that moment, and the old call
// cancel the new one by their common name.
//
// Any thread; one of the server's objects that cross threads. Nothing that
// takes long is done under the lock.
class IdOwners {
 public:
  // Makes `owner` the id's owner until it Release()s it. ALREADY_EXISTS if the
  // id has one.
  absl::Status Take(std::string_view id, const void* owner)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `cancel()` if the id is still `owner`'s; under the lock, since it has
  // to be when it runs. It raises a flag and does not come back here.
  void IfOwner(std::string_view id, const void* owner,
               absl::FunctionRef<void()> cancel) ABSL_LOCKS_EXCLUDED(mu_);

  // The owner's request has ended, or was not taken; nothing if the id is
  // another's.
  void Release(std::string_view id, const void* owner) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  absl::flat_hash_map<std::string, const void*> owners_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_ID_OWNERS_H_
