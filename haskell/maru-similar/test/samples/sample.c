#include <stdio.h>
#define N 10
struct account { int balance; };
static int sum(const int *a, int n) {
  int s = 0, i;
  for (i = 0; i < n; i++) { if (a[i] > 0) s += a[i]; else if (a[i] == -1) continue; else break; }
  while (s >= 100) s -= 1;
  do { s++; } while (s < 3);
  switch (n) { case 1: s = 2; break; default: s = 3; }
  return n > 0 ? s : f(s);
}
int main(void) { struct account x = {0}; x.balance = sum(0, N); printf("%d\n", x.balance); return 0; }
