#ifndef KVASIR_ENGINE_WARMUP_H_
#define KVASIR_ENGINE_WARMUP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "cache/base/clock.h"
#include "cache/kv_cache.h"
#include "engine/request.h"
#include "engine/version_keeper.h"
#include "engine/warm_order.h"
#include "engine/warm_rows.h"

namespace kvasir {

// Tokens whose blocks a warm-up looks up per turn of the engine, at most, so
// that no stream waits longer than some milliseconds for it.
inline constexpr int64_t kMaxWarmLookupTokens = int64_t{1} << 15;

// What requests leave of the cache in this turn. Plain value.
struct WarmRoom {
  int64_t spare_pieces = 0;  // beside what running requests are going to need
  int64_t total_blocks = 0;
  bool alone = false;  // no request is there, none can make room by ending
};

// The warm-up that is under way, and those that wait for it: prefixes become
// prefill-only sequences of the lowest priority. They live beside the roster of
// requests and take part in steps as far as the loop lets them: requests never
// wait for what a warm-up holds, it gives way first.
//
// An order ends by looking every prefix up anew, so that its answer says what
// is resident, and not what was computed once. Part of the engine loop; engine
// thread only.
class Warmup {
 public:
  // All of them outlive this object.
  Warmup(KvCache* cache, const VersionKeeper* versions, const Clock* clock);

  // Puts an order, which has passed CheckWarmOrder(), last; or answers it at
  // once if too many wait.
  void Begin(WarmOrder order);

  bool active() const { return !orders_.empty(); }

  // Tells how far it is, then a slice of what takes no step: looks prefixes up,
  // gives them leases as far as there is room, checks what is resident. Without
  // `room` it stands still, but can be called off.
  void Continue(const std::optional<WarmRoom>& room);

  // At most `budget` rows and `spare_pieces` pieces, of one version: what it
  // would compute next. Valid until anything changes.
  std::vector<WarmRows> Plan(int64_t budget, int64_t spare_pieces);
  // That version; there must be an order.
  const ServedVersion& version() const {
    return *orders_.front().order.version;
  }

  // A step with these rows has been committed, or has failed and has not
  // happened. It is the fault of a prefix that was in it without another one;
  // several stay in hand, and each gets steps of its own from then on.
  void NoteComputed(absl::Span<const WarmRows> rows);
  void NoteFailed(absl::Span<const WarmRows> rows, const absl::Status& why);

  // The prefix that came last to a lease gives it up and waits for another.
  // False: none holds one.
  bool GiveWay();
  // Pieces of its leases, shared ones counted with each.
  int64_t HeldPieces() const;

  // Nothing is planned although no request is there: a prefix has to give up.
  void Unblock();

  // Ends every order, as the engine drains or ends: what is resident goes, too.
  void CallOff(const absl::Status& why);

  // Whether orders have ended and their sinks do not know yet: whoever is told
  // must find the numbers published.
  bool ended() const { return !ended_.empty(); }
  void TellEnd();

 private:
  struct Prefilling {
    size_t prefix = 0;
    int64_t target = 0;           // tokens in whole blocks
    std::vector<TokenId> tokens;  // these and one more, see LookUpTokens()
    CacheUse use;
    Lease lease;
  };
  struct Progress {
    WarmOrder order;
    std::vector<WarmedPrefix> results;
    std::deque<size_t> todo;    // neither in hand nor done
    std::vector<bool> suspect;  // was in a step that failed
    size_t checked = 0;         // prefixes looked up at the end
    absl::Status called_off;
  };
  struct Ended {
    std::shared_ptr<WarmSink> sink;
    absl::Status status;
    std::vector<WarmedPrefix> results;
  };

  Progress& now() { return orders_.front(); }
  WarmReport Report() const;
  void EndUnwantedOrders();
  void EndIfUnwanted();
  void GiveUp(const absl::Status& why);
  void Admit(const WarmRoom& room);
  bool BeginFirst(WarmRoom& room);
  void ExtendLeases();
  void DropDone();
  void Pin(const Prefilling& done);
  void Check();
  void End();
  LeaseRequest RequestOf(const WarmPrefix& prefix,
                         absl::Span<const TokenId> tokens) const;
  std::vector<TokenId> LookUpTokens(size_t prefix);

  KvCache* const cache_;
  const VersionKeeper* const versions_;
  const Clock* const clock_;

  std::deque<Progress> orders_;      // the first one is under way
  std::vector<Prefilling> in_hand_;  // of it, those with a lease
  std::vector<Ended> ended_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_WARMUP_H_
