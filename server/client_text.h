#ifndef KVASIR_SERVER_CLIENT_TEXT_H_
#define KVASIR_SERVER_CLIENT_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kvasir {

// Text that a client sent, which may be anything.

// How many bytes at the start of `text` are well-formed UTF-8 (RFC 3629: no
// surrogates, no overlong forms); its size if all of it is.
size_t Utf8Prefix(std::string_view text);

// `text` in double quotes for an error message: one line, well-formed if `text`
// is, and cut between two characters if it is long.
std::string QuoteClientText(std::string_view text);

}  // namespace kvasir

#endif  // KVASIR_SERVER_CLIENT_TEXT_H_
