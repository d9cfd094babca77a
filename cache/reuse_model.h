#ifndef KVASIR_CACHE_REUSE_MODEL_H_
#define KVASIR_CACHE_REUSE_MODEL_H_

#include <array>
#include <cstdint>

namespace kvasir {

// What it is worth to keep a block, learned from what became of blocks like it.
//
// Blocks are sorted into kinds, by how often they were used. Of each kind the
// model counts after what age (references to any block since the last use)
// blocks came back, how many were forgotten before they did, and, from
// samples, how many are still waiting. From these follows the chance to come
// back at each age, as survival analysis estimates it from lives of which some
// are not over (Kaplan and Meier, "Nonparametric estimation from incomplete
// observations", 1958).
//
// A block is worth the most hits per reference of waiting that any patience
// can buy: max over h of P(back within h) / E[wait, at most h]. That is the
// index by which Gittins ("Bandit processes and dynamic allocation indices",
// 1979) orders rivals for one server, here for a place in the cache; hits per
// place and time are also what Beckmann, Chen and Cidon ("LHD: improving cache
// hit rate by maximizing hit density", 2018) rank by. A hit counts for more
// than one if the kind that the block then becomes is worth more than its
// place costs.
//
// A kind that has seen little believes the kind with a use less. Engine thread
// only.
class ReuseModel {
 public:
  static constexpr int kUseClasses = 12;
  static constexpr int kKinds = 2 * kUseClasses;
  static constexpr int kAges = 64;  // classes of ages, two per doubling

  ReuseModel();

  // The kind of a block that was used so often; `last` if nothing followed it
  // in the sequence that used it last.
  static int KindOf(int64_t use_count, bool last);

  // A block of that kind came back, or was forgotten, at that age.
  void CountReuse(int kind, int64_t age);
  void CountLoss(int kind, int64_t age);

  // A block of that kind, drawn at random, has that age.
  void CountWaiting(int kind, int64_t age);

  // Learns about one kind after the other, one at each call. A block that is
  // waiting was drawn once in `waiting_scale` of them; a place in the cache
  // yields `price` hits per reference elsewhere. At most some microseconds.
  void LearnNext(double waiting_scale, double price);

  // Halves the weight of all that was counted so far.
  void Fade();

  // Hits per reference that keeping such a block brings. Positive.
  double Worth(int kind, int64_t age) const;

 private:
  static constexpr double kLeastWorth = 1e-12;
  // Lives that a kind borrows from the one with a use less.
  static constexpr double kBorrowedLives = 30;
  // How much of what lies beyond the next hit counts.
  static constexpr double kForesight = 0.7;

  using Lives = std::array<double, kAges>;
  struct Kind {
    Lives reused{};
    Lives lost{};
    Lives waiting{};  // since the kind's last turn
    Lives at_risk{};  // not back before that age, as of its last turn
    Lives chance{};   // to come back at that age if not before
    Lives worth{};
    double profit = 0;  // expected when it is new, over the price of its place
  };

  static int AgeClass(int64_t age);
  // `like` is the kind to borrow from, if not null.
  static void EstimateChances(Kind& kind, const Kind* like,
                              double waiting_scale);
  // `gain` is what a return is worth, `price` what a reference of waiting is.
  static void EstimateWorth(Kind& kind, double gain, double price);

  std::array<Kind, kKinds> kinds_;
  int next_ = kKinds - 1;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_REUSE_MODEL_H_
