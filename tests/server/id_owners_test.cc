#include "server/id_owners.h"

#include <string>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(IdOwnersTest, AnIdHasOneOwnerAtATime) {
  IdOwners ids;
  const int old_call = 0;
  const int new_call = 0;
  int cancelled = 0;
  const auto cancel = [&cancelled] { ++cancelled; };
  ids.IfOwner("r", &old_call, cancel);
  EXPECT_EQ(cancelled, 0) << "nobody's yet";
  ASSERT_TRUE(ids.Take("r", &old_call).ok());
  const absl::Status taken = ids.Take("r", &new_call);
  EXPECT_TRUE(absl::IsAlreadyExists(taken)) << taken;
  ids.Release("r", &new_call);
  ids.IfOwner("r", &new_call, cancel);
  EXPECT_EQ(cancelled, 0) << "one that is refused changes nothing";
  ids.IfOwner("r", &old_call, cancel);
  EXPECT_EQ(cancelled, 1);
  ids.Release("r", &old_call);
  ASSERT_TRUE(ids.Take("r", &new_call).ok());
  ids.IfOwner("r", &old_call, cancel);
  EXPECT_EQ(cancelled, 1) << "late";
  ids.Release("r", &old_call);
  ids.IfOwner("r", &new_call, cancel);
  EXPECT_EQ(cancelled, 2);
  ids.Release("r", &new_call);
  ids.IfOwner("r", &new_call, cancel);
  EXPECT_EQ(cancelled, 2);
  EXPECT_TRUE(ids.Take("other", &old_call).ok());
}

}  // namespace
}  // namespace kvasir
