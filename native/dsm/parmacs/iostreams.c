#define _GNU_SOURCE
#include "iostreams.h"

#include "../node.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* ---- libstdc++'s layout, which is its binary interface ------------------------------------- */

#define WORDS 8

/* std::basic_ios, with any character: the fill and whether it is known are in one word. */
struct ios {
  const void *table;
  ptrdiff_t precision, width;
  uint32_t flags, exceptions, state;
  void *callbacks;
  struct word {
    void *pointer;
    long number;
  } none, own[WORDS];
  int count;
  struct word *words;
  void *locale, *tie;
  uint64_t fill;
  struct buffer *buffer;
};

/* std::basic_streambuf */
struct buffer {
  const void *table;
  const char *in, *in_at, *in_end, *out, *out_at, *out_end;
};

/* Of the thread that asks, __cxa_get_globals. */
struct exceptions {
  void *caught;
  unsigned thrown;
};

/* Input comes first. */
static const char *const names[MR_IOSTREAMS][2] = {
    {"_ZSt3cin", "std::cin"},     {"_ZSt4wcin", "std::wcin"},  {"_ZSt4cout", "std::cout"},
    {"_ZSt4cerr", "std::cerr"},   {"_ZSt4clog", "std::clog"},  {"_ZSt5wcout", "std::wcout"},
    {"_ZSt5wcerr", "std::wcerr"}, {"_ZSt5wclog", "std::wclog"}};
#define INPUTS 2

typedef void handler(void);

static struct {
  void *each[MR_IOSTREAMS];
  struct exceptions *exceptions;
  bool throws_own;
  bool (*synchronise)(bool with_stdio);
  void *(*flush)(void *stream), *(*flush_wide)(void *stream);
  void *const *(*classic)(void); /* each locale begins with a pointer */
  void (*make_locale)(void *locale), (*end_locale)(void *locale);
  handler *(*no_memory)(void), *(*set_no_memory)(handler *);
  handler *(*terminates)(void), *(*set_terminates)(handler *);
  const char *tables[2]; /* of what they use where they are synchronised with stdio */
} here;
static bool loaded;

static bool find(void *to, const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  memcpy(to, &found, sizeof found);
  return found != NULL;
}

void mr_iostreams_begin(bool throws_own) {
  struct exceptions *(*exceptions)(void);
  loaded = find(&exceptions, "__cxa_get_globals") &&
           find(&here.synchronise, "_ZNSt8ios_base15sync_with_stdioEb") &&
           find(&here.flush, "_ZNSo5flushEv") &&
           find(&here.flush_wide, "_ZNSt13basic_ostreamIwSt11char_traitsIwEE5flushEv") &&
           find(&here.classic, "_ZNSt6locale7classicEv") &&
           find(&here.make_locale, "_ZNSt6localeC1Ev") &&
           find(&here.end_locale, "_ZNSt6localeD1Ev") &&
           find(&here.no_memory, "_ZSt15get_new_handlerv") &&
           find(&here.set_no_memory, "_ZSt15set_new_handlerPFvvE") &&
           find(&here.terminates, "_ZSt13get_terminatev") &&
           find(&here.set_terminates, "_ZSt13set_terminatePFvvE") &&
           find(&here.tables[0], "_ZTVN9__gnu_cxx18stdio_sync_filebufIcSt11char_traitsIcEEE") &&
           find(&here.tables[1], "_ZTVN9__gnu_cxx18stdio_sync_filebufIwSt11char_traitsIwEEE");
  for (int i = 0; i < MR_IOSTREAMS; i++)
    loaded = loaded && find(&here.each[i], names[i][0]) && !mr_node_shares(here.each[i], 1);
  if (loaded)
    here.exceptions = exceptions();
  here.throws_own = throws_own;
}

/* ---- what they are -------------------------------------------------------------------------- */

/* A stream's table says where its virtual base is. */
static struct ios *ios_of(int stream) {
  const ptrdiff_t *table = *(const ptrdiff_t *const *)here.each[stream];
  return (struct ios *)(void *)((char *)here.each[stream] + table[-3]);
}

/* Of an input stream: how much it has read last. */
static ptrdiff_t *count_of(int stream) {
  return stream < INPUTS ? (ptrdiff_t *)here.each[stream] + 1 : NULL;
}

static bool is_librarys(const void *at) {
  Dl_info of, its;
  return dladdr(at, &of) != 0 && dladdr(here.each[0], &its) != 0 && of.dli_fbase == its.dli_fbase;
}

/* Whether it is libstdc++'s own that reads or writes by itself.  A table begins with two words
 * before what objects point to. */
static bool is_apart(const struct buffer *buffer) {
  const char *table = buffer != NULL ? buffer->table : NULL;
  return table != NULL && table != here.tables[0] + 2 * sizeof(void *) &&
         table != here.tables[1] + 2 * sizeof(void *) && is_librarys(buffer);
}

static bool is_wide(int stream) { return names[stream][1][5] == 'w'; }

static bool holds(int stream) {
  const struct buffer *buffer = ios_of(stream)->buffer;
  return buffer != NULL &&
         (stream < INPUTS ? buffer->in_at < buffer->in_end : buffer->out_at > buffer->out) &&
         is_apart(buffer);
}

/* No file of a program that does not use them makes them. */
static bool are_made(void) { return loaded && *(void *const *)here.each[0] != NULL; }

void mr_iostreams_flush(void) {
  for (int i = INPUTS; are_made() && i < MR_IOSTREAMS; i++)
    if (holds(i))
      (is_wide(i) ? here.flush_wide : here.flush)(here.each[i]);
}

bool mr_iostreams_handlers(struct mr_handlers *handlers) {
  if (loaded)
    *handlers = (struct mr_handlers){here.no_memory(), here.terminates()};
  return loaded;
}

void mr_iostreams_set_handlers(const struct mr_handlers *handlers) {
  if (!loaded)
    return;
  here.set_no_memory(handlers->no_memory);
  here.set_terminates(handlers->terminates);
}

bool mr_iostreams_format(int stream, struct mr_format *format) {
  if (!are_made())
    return false;
  const struct ios *ios = ios_of(stream);
  *format = (struct mr_format){ios->precision, ios->flags, ios->fill};
  return true;
}

void mr_iostreams_set_format(int stream, const struct mr_format *format) {
  if (!are_made())
    return;
  struct ios *ios = ios_of(stream);
  ios->precision = format->precision;
  ios->flags = format->flags;
  ios->fill = format->fill;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static int refuse(char *why, size_t size, const char *who, const char *what) {
  snprintf(why, size, "the program%s%s %s", *who != 0 ? "'s " : "", who, what);
  return -EOPNOTSUPP;
}

static bool has_locale(void) {
  void *global[1];
  here.make_locale(global);
  bool other = global[0] != *here.classic();
  here.end_locale(global);
  return other;
}

static bool has_words(const struct ios *ios) {
  static const struct word none[WORDS];
  return ios->words != ios->own || memcmp(ios->own, none, sizeof none) != 0;
}

static const char *what_is_lost(int stream) {
  const struct ios *ios = ios_of(stream);
  return ios->locale != *here.classic()             ? "has a locale of its own"
         : ios->callbacks != NULL || has_words(ios) ? "has what its program hung on it"
         : holds(stream) && stream < INPUTS ? "has not yet read all that came by its standard input"
         : holds(stream)                    ? "holds what cannot be written"
                                            : NULL;
}

static void take(struct mr_iostream *to, int stream) {
  const struct ios *ios = ios_of(stream);
  const ptrdiff_t *count = count_of(stream);
  *to = (struct mr_iostream){.precision = ios->precision,
                             .width = ios->width,
                             .count = count != NULL ? *count : 0,
                             .flags = ios->flags,
                             .exceptions = ios->exceptions,
                             .state = ios->state,
                             .tie = ios->tie,
                             .buffer = ios->buffer,
                             .fill = ios->fill};
}

static int take_each(struct mr_iostreams *streams, char *why, size_t size) {
  for (int i = 0; streams->made && i < MR_IOSTREAMS; i++) {
    const char *what = what_is_lost(i);
    if (what != NULL)
      return refuse(why, size, names[i][1], what);
    take(&streams->each[i], i);
    streams->synchronised = streams->synchronised && !is_apart(ios_of(i)->buffer);
  }
  return 0;
}

int mr_iostreams_take(struct mr_iostreams *streams, char *why, size_t size) {
  *streams = (struct mr_iostreams){.there = loaded, .made = are_made(), .synchronised = true};
  if (!loaded)
    return 0;
  streams->caught = here.exceptions->caught;
  streams->thrown = here.exceptions->thrown;
  if (!here.throws_own && (streams->caught != NULL || streams->thrown != 0))
    return refuse(why, size, "", "handles an exception of C++");
  if (has_locale())
    return refuse(why, size, "", "has set a locale by std::locale::global");
  streams->no_memory = here.no_memory();
  streams->terminates = here.terminates();
  return take_each(streams, why, size);
}

/* ---- reading -----------------------------------------------------------------------------------
 */

static void put(const struct mr_iostream *from, int stream) {
  struct ios *ios = ios_of(stream);
  ptrdiff_t *count = count_of(stream);
  ios->precision = from->precision;
  ios->width = from->width;
  ios->flags = from->flags;
  ios->exceptions = from->exceptions;
  ios->state = from->state;
  ios->tie = from->tie;
  ios->buffer = from->buffer;
  ios->fill = from->fill;
  if (count != NULL)
    *count = from->count;
}

/* Their buffers lie at the same places in every process, once they are made. */
void mr_iostreams_put(const struct mr_iostreams *streams) {
  if (!loaded || !streams->there)
    return;
  if (!streams->synchronised)
    here.synchronise(false);
  for (int i = 0; streams->made && are_made() && i < MR_IOSTREAMS; i++)
    put(&streams->each[i], i);
  mr_iostreams_set_handlers(&(struct mr_handlers){streams->no_memory, streams->terminates});
  *here.exceptions = (struct exceptions){streams->caught, streams->thrown};
}
