#include <atomic>
#include <map>
namespace app {
template <typename T, int N = 4> class Ring : public Base<T>, private Other {
 public:
  explicit Ring(int n) : head_(0), tail_{n}, name_("a,b") {}
  ~Ring() override = default;
  T &operator[](int i) { return data_[i]; }
 private:
  std::atomic<long> head_;  // readers
  alignas(64) std::atomic<long> tail_{0};
  std::map<int, std::pair<T, long>> by_key_ = {{1, {T(), 2}}};
  T data_[N];
  const char *name_ = "}; // not the end";
  static constexpr int kMax = 3;
  friend struct Other;
  enum { kRed, kGreen } colour_;
};
}  // namespace app
