#include "engine/request_group.h"

#include <vector>

#include "engine/model/tokenizer.h"
#include "engine/served_version.h"

namespace kvasir {

std::vector<TokenId> EndersOf(const Request& request) {
  const StoppingParams& stopping = request.stopping;
  if (stopping.min_tokens == 0) return {};
  std::vector<TokenId> enders = stopping.token_ids;
  if (stopping.ignore_eos) return enders;
  const Tokenizer& tokenizer = request.version->tokenizer();
  enders.insert(enders.end(), tokenizer.end_tokens().begin(),
                tokenizer.end_tokens().end());
  return enders;
}

}  // namespace kvasir
