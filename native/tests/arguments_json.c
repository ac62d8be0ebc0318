/* Options: each number within its bounds is stored, any other ends the program in one line
 * with status 64.  JSON: what is written is one document, whatever the names and texts hold. */
#include "arguments.h"
#include "check.h"
#include "json.h"

#include <math.h>

#define OPTIONS_OF(values)                                                                         \
  {                                                                                                \
    {"-n", MR_WHOLE, &(values).whole, "things", 1, 10},                                            \
        {"--real", MR_REAL, &(values).real, "shares", -1, 0.5},                                    \
        {"--name", MR_TEXT, &(values).text, NULL, 0, 0},                                           \
        {"-f", MR_FLAG, &(values).flag, NULL, 0, 0},                                               \
  }

struct values {
  int64_t whole;
  double real;
  const char *text;
  bool flag;
};

static int read_into(struct values *values, int argc, char **argv) {
  const struct mr_option options[] = OPTIONS_OF(*values);
  return mr_arguments("test", options, sizeof options / sizeof *options, argc, argv);
}

static void reads_all_kinds(void) {
  struct values values = {0};
  char *argv[] = {"test", "-n", "10", "--real", "-0.5", "--name", "-n", "-f", "rest", "-f"};
  CHECK_EQUAL(read_into(&values, 10, argv), 8);
  CHECK_EQUAL(values.whole, 10);
  CHECK(values.real == -0.5 && values.flag && strcmp(values.text, "-n") == 0);
}

static void stops_where_asked(void) {
  struct values values = {0};
  char *argv[] = {"test", "--", "-f"}, *dash[] = {"test", "-", "-f"};
  CHECK_EQUAL(read_into(&values, 3, argv), 2);
  CHECK_EQUAL(read_into(&values, 3, dash), 1);
  CHECK_EQUAL(read_into(&values, 1, argv), 1);
  CHECK(!values.flag);
}

/* The status of a process with this command line. */
static int status_of(char *name, char *value) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    struct values values = {0};
    char *argv[] = {"test", name, value};
    read_into(&values, value == NULL ? 2 : 3, argv);
    _exit(0);
  }
  int status;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void refuses_the_rest(void) {
  static char *const wrong[][2] = {
      {"-n", "0"},
      {"-n", "11"},
      {"-n", ""},
      {"-n", " 5"},
      {"-n", "5x"},
      {"-n", "5.0"},
      {"-n", "99999999999999999999"},
      {"-n", NULL},
      {"--real", "nan"},
      {"--real", "0.51"},
      {"--real", "x"},
      {"--real", NULL},
      {"--unknown", "1"},
      {"-x", NULL},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    CHECK_EQUAL(status_of(wrong[i][0], wrong[i][1]), MR_USAGE);
  CHECK_EQUAL(status_of("-n", "1"), 0);
}

static void writes_json(void) {
  char *text;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  CHECK(out != NULL);
  struct mr_json json = {.out = out};
  mr_json_object(&json, NULL);
  mr_json_text(&json, "a\"b", "\\\n\x01\xc3\xa4");
  mr_json_array(&json, "list");
  mr_json_whole(&json, NULL, UINT64_MAX);
  mr_json_real(&json, NULL, 1.25, 1);
  mr_json_real(&json, NULL, NAN, 1);
  mr_json_object(&json, NULL);
  mr_json_end_object(&json);
  mr_json_end_array(&json);
  mr_json_bool(&json, "yes", true);
  mr_json_end_object(&json);
  CHECK_EQUAL(fclose(out), 0);
  const char *wanted = "{\"a\\\"b\": \"\\\\\\u000a\\u0001\xc3\xa4\", \"list\": [\n"
                       "18446744073709551615,\n1.2,\nnull,\n{}\n], \"yes\": true}";
  if (strcmp(text, wanted) != 0)
    fprintf(stderr, "written: %s\n", text);
  CHECK(strcmp(text, wanted) == 0);
  free(text);
}

int main(void) {
  reads_all_kinds();
  stops_where_asked();
  refuses_the_rest();
  writes_json();
  return 0;
}
