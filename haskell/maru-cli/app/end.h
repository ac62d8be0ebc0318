/* end.h: how the command ends where GHC's run-time system cannot begin or cannot go on. */
#ifndef MARU_APP_END_H
#define MARU_APP_END_H

/* Before the run-time system begins: what it says becomes a line of ours, and its status that of
 * the command line's contract.  Ends at once where too few files can be opened for it. */
void end_in_our_words(int argc, char **argv);

#endif
