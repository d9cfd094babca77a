#ifndef KVASIR_ENGINE_MODEL_SHA256_H_
#define KVASIR_ENGINE_MODEL_SHA256_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace kvasir {

// SHA-256 of bytes that come piece by piece. A copy goes on from the same
// point, apart from the original. One thread at a time.
class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256& other);
  Sha256& operator=(const Sha256& other);
  Sha256(Sha256&& other) noexcept = default;  // `other` may only be assigned to
  Sha256& operator=(Sha256&& other) noexcept = default;

  void Update(absl::Span<const uint8_t> bytes);
  void Update(std::string_view bytes);

  // Of all bytes so far, lower-case hex. More may follow.
  std::string Hex() const;

 private:
  struct State;
  struct Delete {
    void operator()(State* state) const;
  };
  std::unique_ptr<State, Delete> state_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_SHA256_H_
