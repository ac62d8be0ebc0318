/* errno is 0 when a program begins (C11, 7.5), whatever was preloaded and looked for in vain. */
#include <errno.h>

int main(void) { return errno != 0; }
