/* What a generated parser of ABI 14 is made of, for where neither the runtime's package nor the
 * grammar's has this header (Debian 13 has it no more). Both of theirs are found first.
 *
 * Names, order and types are the ABI's. What generated.h defines itself is not here. */
#ifndef TREE_SITTER_PARSER_H_
#define TREE_SITTER_PARSER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ts_builtin_sym_end 0
#define ts_builtin_sym_error ((TSSymbol)-1)

typedef uint16_t TSStateId;
#ifndef TREE_SITTER_API_H_
typedef uint16_t TSSymbol;
typedef uint16_t TSFieldId;
typedef struct TSLanguage TSLanguage;
#endif

typedef struct {
  TSFieldId field_id;
  uint8_t child_index;
  bool inherited;
} TSFieldMapEntry;

typedef struct {
  uint16_t index, length;
} TSFieldMapSlice;

typedef struct {
  bool visible, named, supertype;
} TSSymbolMetadata;

typedef struct TSLexer TSLexer;
struct TSLexer {
  int32_t lookahead;
  TSSymbol result_symbol;
  void (*advance)(TSLexer *, bool);
  void (*mark_end)(TSLexer *);
  uint32_t (*get_column)(TSLexer *);
  bool (*is_at_included_range_start)(const TSLexer *);
  bool (*eof)(const TSLexer *);
};

typedef enum {
  TSParseActionTypeShift,
  TSParseActionTypeReduce,
  TSParseActionTypeAccept,
  TSParseActionTypeRecover,
} TSParseActionType;

typedef union {
  struct {
    uint8_t type;
    TSStateId state;
    bool extra, repetition;
  } shift;
  struct {
    uint8_t type, child_count;
    TSSymbol symbol;
    int16_t dynamic_precedence;
    uint16_t production_id;
  } reduce;
  uint8_t type;
} TSParseAction;

typedef union {
  TSParseAction action;
  struct {
    uint8_t count;
    bool reusable;
  } entry;
} TSParseActionEntry;

typedef struct {
  uint16_t lex_state, external_lex_state;
} TSLexMode;

struct TSLanguage {
  uint32_t version, symbol_count, alias_count, token_count, external_token_count, state_count,
      large_state_count, production_id_count, field_count;
  uint16_t max_alias_sequence_length;
  const uint16_t *parse_table, *small_parse_table;
  const uint32_t *small_parse_table_map;
  const TSParseActionEntry *parse_actions;
  const char *const *symbol_names, *const *field_names;
  const TSFieldMapSlice *field_map_slices;
  const TSFieldMapEntry *field_map_entries;
  const TSSymbolMetadata *symbol_metadata;
  const TSSymbol *public_symbol_map;
  const uint16_t *alias_map;
  const TSSymbol *alias_sequences;
  const TSLexMode *lex_modes;
  bool (*lex_fn)(TSLexer *, TSStateId);
  bool (*keyword_lex_fn)(TSLexer *, TSStateId);
  TSSymbol keyword_capture_token;
  struct {
    const bool *states;
    const TSSymbol *symbol_map;
    void *(*create)(void);
    void (*destroy)(void *);
    bool (*scan)(void *, TSLexer *, const bool *valid);
    unsigned (*serialize)(void *, char *to);
    void (*deserialize)(void *, const char *from, unsigned bytes);
  } external_scanner;
  const TSStateId *primary_state_ids;
};

/* Within a lexer's function, whose state is `state`. */
#define START_LEXER()                                                                              \
  bool result = false, skip = false, eof = false;                                                  \
  int32_t lookahead;                                                                               \
  (void)eof;                                                                                       \
  goto start;                                                                                      \
  next_state:                                                                                      \
  lexer->advance(lexer, skip);                                                                     \
  start:                                                                                           \
  skip = false;                                                                                    \
  lookahead = lexer->lookahead;
#define ADVANCE(to)                                                                                \
  {                                                                                                \
    state = (to);                                                                                  \
    goto next_state;                                                                               \
  }
#define SKIP(to)                                                                                   \
  {                                                                                                \
    skip = true;                                                                                   \
    ADVANCE(to)                                                                                    \
  }
#define ACCEPT_TOKEN(symbol)                                                                       \
  result = true;                                                                                   \
  lexer->result_symbol = (symbol);                                                                 \
  lexer->mark_end(lexer);
#define END_STATE() return result;

/* Within the tables. */
#define SMALL_STATE(id) ((id)-LARGE_STATE_COUNT)
#define STATE(id) id
#define ACTIONS(id) id
#define MARU_SHIFTS(...)                                                                           \
  {                                                                                                \
    {                                                                                              \
      .shift = {.type = TSParseActionTypeShift, __VA_ARGS__ }                                      \
    }                                                                                              \
  }
#define SHIFT(to) MARU_SHIFTS(.state = (to))
#define SHIFT_REPEAT(to) MARU_SHIFTS(.state = (to), .repetition = true)
#define SHIFT_EXTRA() MARU_SHIFTS(.extra = true)
#define RECOVER()                                                                                  \
  {                                                                                                \
    { .type = TSParseActionTypeRecover }                                                           \
  }
#define ACCEPT_INPUT()                                                                             \
  {                                                                                                \
    { .type = TSParseActionTypeAccept }                                                            \
  }

#endif
