// Makes Abseil's locks visible to the thread sanitizer.
//
// Debian's libabsl is built without it, so that an absl::Mutex orders nothing
// in the sanitizer's eyes and everything it protects looks like a race. The
// linker sends our calls here (--wrap, see tests/CMakeLists.txt); each does
// what was asked and tells the sanitizer what the call orders: all that came
// before an Unlock() or Notify() is seen after the next Lock() or Wait.
//
// Linked into test programs of the tsan build only.

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

extern "C" {

void __tsan_acquire(void* address);
void __tsan_release(void* address);

// A waiter's predicate, and the Condition on the waiter's stack that holds it,
// are also read by the thread that unlocks, inside libabsl, where no order can
// be told. Nothing but predicates runs below such a frame; that they hold the
// lock is what their thread-safety annotations say.
const char* __tsan_default_suppressions() {
  return "race:absl::debian3::Condition::\n";
}

// The names are the mangled ones of the functions wrapped.
#define KV_WRAP(name) __wrap__##name
#define KV_REAL(name) __real__##name

void KV_REAL(ZN4absl7debian35Mutex4LockEv)(absl::Mutex* mutex);
void KV_WRAP(ZN4absl7debian35Mutex4LockEv)(absl::Mutex* mutex) {
  KV_REAL(ZN4absl7debian35Mutex4LockEv)(mutex);
  __tsan_acquire(mutex);
}

void KV_REAL(ZN4absl7debian35Mutex6UnlockEv)(absl::Mutex* mutex);
void KV_WRAP(ZN4absl7debian35Mutex6UnlockEv)(absl::Mutex* mutex) {
  __tsan_release(mutex);
  KV_REAL(ZN4absl7debian35Mutex6UnlockEv)(mutex);
}

void KV_REAL(ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE)(
    absl::Mutex* mutex, const absl::Condition* condition);
void KV_WRAP(ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE)(
    absl::Mutex* mutex, const absl::Condition* condition) {
  __tsan_release(mutex);
  KV_REAL(ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE)(mutex, condition);
  __tsan_acquire(mutex);
}

bool KV_REAL(
    ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE)(
    absl::Mutex* mutex, const absl::Condition* condition,
    absl::Duration timeout);
bool KV_WRAP(
    ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE)(
    absl::Mutex* mutex, const absl::Condition* condition,
    absl::Duration timeout) {
  __tsan_release(mutex);
  const bool holds = KV_REAL(
      ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE)(
      mutex, condition, timeout);
  __tsan_acquire(mutex);
  return holds;
}

void KV_REAL(ZN4absl7debian312Notification6NotifyEv)(absl::Notification* done);
void KV_WRAP(ZN4absl7debian312Notification6NotifyEv)(absl::Notification* done) {
  __tsan_release(done);
  KV_REAL(ZN4absl7debian312Notification6NotifyEv)(done);
}

void KV_REAL(ZNK4absl7debian312Notification19WaitForNotificationEv)(
    absl::Notification* done);
void KV_WRAP(ZNK4absl7debian312Notification19WaitForNotificationEv)(
    absl::Notification* done) {
  KV_REAL(ZNK4absl7debian312Notification19WaitForNotificationEv)(done);
  __tsan_acquire(done);
}

}  // extern "C"
