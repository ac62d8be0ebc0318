/* thread_local.c: a program with so much thread-local data that a thread wants a larger stack than
   maru would give it. */
int faults_thread_local(int x);

static __thread char large[300000];

int faults_thread_local(int x) {
  large[x % 300000] = (char)x;
  return large[x % 300000] + 1;
}
