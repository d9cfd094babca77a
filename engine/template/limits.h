#ifndef KVASIR_ENGINE_TEMPLATE_LIMITS_H_
#define KVASIR_ENGINE_TEMPLATE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace kvasir::jinja {

// What bounds the time and memory of a template, whoever wrote it and whatever
// text it is given. Over one of them is an error that says which, never a crash
// or a long wait. Steps come to about two seconds, and the stack to less than
// half a megabyte.

// Of a template's source.
inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

// Blocks and expressions inside of each other, in the source.
inline constexpr int kMaxNesting = 100;

// The same while rendering, with macros that call macros.
inline constexpr int kMaxEvaluationDepth = 250;

// Statements and expressions evaluated, and what counts as such: an item that a
// filter looks at, kBytesPerStep bytes that are searched.
inline constexpr size_t kMaxSteps = 20'000'000;
inline constexpr size_t kBytesPerStep = 64;

// Bytes of all values that a rendering makes, also those it drops: a fixed part
// and one that grows with the bytes of the context.
inline constexpr size_t kMaxProducedBytes = size_t{64} << 20;
inline constexpr size_t kProducedPerContextByte = 32;

// Of the rendered text.
inline constexpr size_t kMaxOutputBytes = size_t{32} << 20;

// As in jinja2's sandbox.
inline constexpr int64_t kMaxRangeItems = 100'000;

// Of a list, tuple or dict.
inline constexpr size_t kMaxItems = size_t{1} << 20;

// What holds values inside of each other: lists and objects of JSON, and any
// list, dict, generator, cycler, method and so on of a template.
inline constexpr int kMaxJsonDepth = 64;
inline constexpr int kMaxValueDepth = 96;

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_LIMITS_H_
