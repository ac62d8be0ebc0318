#include <vector>
using namespace std;
class Account : public Base { public: Account(int b) : balance(b) {} int get() const { return balance; } private: int balance; };
template <class T> T best(const vector<T> &v) {
  T m = v[0];
  for (auto x : v) { if (!(x < m)) { m = x; } else { m = 0; } }
  try { throw 1; } catch (const exception &e) { auto f = [&](int y) { return y + 1; }; f(2); }
  Account *a = new Account(3);
  return m;
}
