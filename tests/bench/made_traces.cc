#include "tests/bench/made_traces.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <random>
#include <utility>
#include <vector>

namespace kvasir::bench {
namespace {

using Blocks = std::vector<int32_t>;

class Maker {
 public:
  Maker(uint32_t seed, int64_t capacity) : random_(seed), capacity_(capacity) {}

  BlockTrace Make(int64_t references) {
    std::vector<Nature> natures(1 + Draw(3));
    for (Nature& nature : natures) nature = DrawNature();
    const bool at_once = Draw(4) == 0;
    // References in a phase; from shorter than the cache to the whole trace.
    const int64_t phase =
        Draw(4) == 0 ? references : Scaled(0.5 * std::pow(64, Share()));
    int64_t phase_end = phase;
    size_t active = 0;
    while (trace_.reference_count < references) {
      if (trace_.reference_count >= phase_end) {
        phase_end += phase;
        active = (active + 1) % natures.size();
        if (natures[active].renews) natures[active].Forget();
      }
      if (at_once) active = static_cast<size_t>(Draw(natures.size()));
      Request(natures[active]);
    }
    return std::move(trace_);
  }

 private:
  struct Nature {
    int kind = 0;
    int64_t spread = 0;  // blocks over which it comes back
    int64_t length = 0;  // of a document
    double skew = 0;
    double fresh = 0;     // share of requests for new documents
    bool renews = false;  // with each phase

    std::vector<Blocks> documents;
    std::deque<Blocks> waiting;
    int64_t turn = 0;
    void Forget() {
      documents.clear();
      waiting.clear();
    }
  };
  static constexpr int kKinds = 7;

  Nature DrawNature() {
    Nature nature;
    nature.kind = static_cast<int>(Draw(kKinds));
    nature.spread = Scaled(0.1 * std::pow(40, Share()));
    nature.length = 1 + Draw(std::min<int64_t>(40, 1 + capacity_ / 4));
    nature.skew = Draw(3) == 0 ? 0 : 1.4 * Share();
    nature.fresh = Draw(2) == 0 ? 0 : 0.7 * Share();
    nature.renews = Draw(2) == 0;
    return nature;
  }

  // A request of that nature; among some of all natures one-off prompts come.
  void Request(Nature& nature) {
    const bool fresh = nature.kind == 1 || Share() < nature.fresh;
    if (fresh && nature.kind != 4) return Add(New(nature.length));
    switch (nature.kind) {
      case 0:
        Fill(nature);
        return Add(nature.documents[nature.turn++ % nature.documents.size()]);
      case 2:
        Fill(nature);
        return Add(nature.documents[Popular(nature)]);
      case 3:
        return Turn(nature);
      case 4:
        return Return(nature, fresh);
      case 5:
        Fill(nature);
        return Add(Joined(nature.documents[Popular(nature)],
                          New(1 + Draw(nature.length))));
      default:
        return Pair(nature);
    }
  }

  void Fill(Nature& nature) {
    const size_t count = 1 + nature.spread / nature.length;
    while (nature.documents.size() < count) {
      nature.documents.push_back(New(1 + Draw(2 * nature.length)));
    }
  }

  // Some document, the first ones more often the larger the skew.
  size_t Popular(const Nature& nature) {
    const double count = static_cast<double>(nature.documents.size());
    const double place = std::pow(Share(), 1 + 2 * nature.skew) * count;
    return std::min(static_cast<size_t>(place), nature.documents.size() - 1);
  }

  void Turn(Nature& nature) {
    Fill(nature);
    Blocks& talk = nature.documents[Popular(nature)];
    if (Draw(8) == 0) talk.clear();
    talk = Joined(talk, New(1 + Draw(4)));
    // What is answered is part of the next turn, what was looked for is not.
    Add(Draw(3) == 0 ? Joined(talk, New(1)) : talk);
  }

  void Return(Nature& nature, bool fresh) {
    const double back = -std::log(1 - Share()) *
                        static_cast<double>(nature.spread) /
                        static_cast<double>(nature.length);
    std::vector<Blocks>& stack = nature.documents;
    Blocks document;
    if (fresh || back >= static_cast<double>(stack.size())) {
      document = New(1 + Draw(2 * nature.length));
    } else {
      const auto place = stack.end() - 1 - static_cast<int64_t>(back);
      document = std::move(*place);
      stack.erase(place);
    }
    Add(document);
    stack.push_back(std::move(document));
    // Nobody goes back that far; erasing from the front keeps this linear.
    const size_t most = 8 * nature.spread / nature.length + 64;
    if (stack.size() > 2 * most) stack.erase(stack.begin(), stack.end() - most);
  }

  void Pair(Nature& nature) {
    const size_t distance = 1 + nature.spread / nature.length;
    if (nature.waiting.size() > distance && Draw(2) == 0) {
      Add(nature.waiting.front());
      nature.waiting.pop_front();
    } else {
      nature.waiting.push_back(New(nature.length));
      Add(nature.waiting.back());
    }
  }

  Blocks New(int64_t length) {
    Blocks blocks;
    for (int64_t i = 0; i < length; ++i) blocks.push_back(next_++);
    return blocks;
  }

  static Blocks Joined(Blocks head, const Blocks& tail) {
    head.insert(head.end(), tail.begin(), tail.end());
    return head;
  }

  void Add(const Blocks& blocks) {
    trace_.parents.resize(static_cast<size_t>(next_), -1);
    for (size_t i = 0; i < blocks.size(); ++i) {
      trace_.parents[blocks[i]] = i == 0 ? -1 : blocks[i - 1];
    }
    const int64_t length = static_cast<int64_t>(blocks.size());
    trace_.requests.push_back(blocks);
    trace_.reference_count += length;
    trace_.longest = std::max(trace_.longest, length);
  }

  // No distributions: they differ between libraries.
  int64_t Draw(uint64_t below) {
    return static_cast<int64_t>(random_() % below);
  }
  double Share() { return static_cast<double>(random_()) * 0x1p-32; }
  int64_t Scaled(double times) {
    return 1 + static_cast<int64_t>(times * static_cast<double>(capacity_));
  }

  std::mt19937 random_;
  const int64_t capacity_;
  int32_t next_ = 0;
  BlockTrace trace_;
};

}  // namespace

BlockTrace MakeTrace(uint32_t seed, int64_t capacity, int64_t references) {
  return Maker(seed, capacity).Make(references);
}

}  // namespace kvasir::bench
