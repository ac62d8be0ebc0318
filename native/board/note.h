/* note.h: a line for a board that does not fit into this process's addresses (internal). */
#ifndef MARU_BOARD_NOTE_H
#define MARU_BOARD_NOTE_H

/* As maru_board_open and maru_board_say, but maps no more than header and log. */
int mr_board_note(const char *path, const char *room, const char *text);

#endif
