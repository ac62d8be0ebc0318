/* vm.h: micro-VMs, as the parallel map uses them: what the host gives one, and what a guest's first
 * process does (private to maru).
 *
 * Errors are negative errno.
 */
#ifndef MARU_VM_VM_H
#define MARU_VM_VM_H

#include <stddef.h>
#include <stdint.h>

/* ---- the host -------------------------------------------------------------- */

/* A memfd of so many bytes, close-on-exec, sealed against resizing. */
int maru_vm_memory(size_t bytes);
/* Bytes that this process may use: `memory_limit` of maru/topology.h; UINT64_MAX: not known. */
uint64_t maru_vm_memory_limit(void);
/* The files of this process's shared objects, its program left out, by the names under which the
 * dynamic linker looked for them: each ends in a zero. How many bytes; -ENOBUFS: more than `room`.
 */
int maru_vm_objects(char *names, int room);
/* maru_ranks_spawn with the three given descriptors, but that the kernel kills the program when
 * *lifeline is closed: by the end of this process, too. The caller closes it. */
int maru_vm_spawn(char *const *command, const int given[3], int *lifeline);

/* ---- the guest ------------------------------------------------------------- */

/* Where a guest's modules lie; the file system of the root has no other folder of this name. */
#define MARU_VM_MODULES "/maru-modules"

/* For the first process of a guest, before it has other children. Mounts what a program expects,
 * loads the modules, waits for the channel (a virtio port), starts its own program again with the
 * channel as input and output, and MARU_AGENT=1, and adopts what that leaves. Then it ends the
 * guest, with status 1; where a step fails, it says which on standard error, with status 3. Never
 * returns. */
_Noreturn void maru_vm_guest(void);

#endif
