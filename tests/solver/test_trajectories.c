/* Update rules, rates and averages against PyTorch's: trajectories.txt, which
 * scripts/solver_trajectories.py wrote. */
#include <math.h>

#include "solver_case.h"

enum { WEIGHTS = 6, VALUES = 8, ITERATIONS = 25, SHOWN = 4 };

/* The values after so many iterations, or the averages of them. */
typedef struct shown_values {
  int iterations;
  double value[VALUES];
} shown_values;

typedef struct trajectory {
  char name[64], text[512];
  double rate[ITERATIONS], momentum[ITERATIONS];
  bool has_momenta;
  int values, averages;
  shown_values after[SHOWN], average[SHOWN];
} trajectory;

static void read_numbers(const char *text, int count, double *out) {
  int size = 0;
  for (int i = 0; i < count; ++i, text += size) {
    if (sscanf(text, "%lf%n", &out[i], &size) != 1) fail_msg("number %d of '%s'", i, text);
  }
}

static void read_values(const char *text, shown_values *out) {
  int size = 0;
  assert_int_equal(sscanf(text, "%d%n", &out->iterations, &size), 1);
  read_numbers(text + size, VALUES, out->value);
}

/* "<word> " at the beginning of the line. */
static const char *behind(const char *line, const char *word) {
  const size_t size = strlen(word);
  return strncmp(line, word, size) == 0 && line[size] == ' ' ? line + size + 1 : NULL;
}

static void read_line(const char *line, trajectory *t) {
  const char *rest;
  if ((rest = behind(line, "solver")) != NULL) {
    snprintf(t->text, sizeof t->text, "%.500s", rest);
  } else if ((rest = behind(line, "rates")) != NULL) {
    read_numbers(rest, ITERATIONS, t->rate);
  } else if ((rest = behind(line, "momenta")) != NULL) {
    read_numbers(rest, ITERATIONS, t->momentum);
    t->has_momenta = true;
  } else if ((rest = behind(line, "after")) != NULL) {
    assert_true(t->values < SHOWN);
    read_values(rest, &t->after[t->values++]);
  } else if ((rest = behind(line, "average")) != NULL) {
    assert_true(t->averages < SHOWN);
    read_values(rest, &t->average[t->averages++]);
  } else {
    fail_msg("'%s'", line);
  }
}

/* ---- running ---- */

/* Where all begin, and the gradients, which the script has, too. */
static void begin(crema_net *net) {
  for (int p = 0, at = 0; p < net->learnables; ++p) {
    float *value;
    ok(crema_blob_mutable_cpu_data(net->learnable[p], &value));
    for (int i = 0; i < crema_blob_count(net->learnable[p]); ++i, ++at) {
      value[i] = (float)(0.5 * cos(1 + at));
    }
  }
}

static void set_gradients(crema_net *net, int step) {
  for (int p = 0, at = 0; p < net->learnables; ++p) {
    const float *value;
    float *diff;
    ok(crema_blob_cpu_data(net->learnable[p], &value));
    ok(crema_blob_mutable_cpu_diff(net->learnable[p], &diff));
    for (int i = 0; i < crema_blob_count(net->learnable[p]); ++i, ++at) {
      diff[i] = (float)(sin(1.3 * step + 0.7 * at) * (1 + 0.1 * at) + 0.3 * (double)value[i]);
    }
  }
}

static void compare(const trajectory *t, const char *what, const shown_values *expected,
                    crema_blob *const *blob) {
  for (int at = 0; at < VALUES; ++at) {
    const float *value;
    ok(crema_blob_cpu_data(blob[at >= WEIGHTS], &value));
    const double found = (double)value[at >= WEIGHTS ? at - WEIGHTS : at];
    if (fabs(found - expected->value[at]) < 1e-5) continue;
    fail_msg("%s, %s %d: value %d is %.8g, not %.8g", t->name, what, expected->iterations, at,
             found, expected->value[at]);
  }
}

static void compare_all(const trajectory *t, const cr_replica *replica, int iterations) {
  for (int i = 0; i < t->values; ++i) {
    if (t->after[i].iterations != iterations) continue;
    compare(t, "after", &t->after[i], replica->net->learnable);
  }
  for (int i = 0; i < t->averages; ++i) {
    if (t->average[i].iterations != iterations) continue;
    crema_blob *const blob[] = {cr_average_of(replica->average, 0),
                                cr_average_of(replica->average, 1)};
    compare(t, "average", &t->average[i], blob);
  }
}

static void run_trajectory(const trajectory *t) {
  solver_case c;
  char text[640];
  case_begin(&c);
  snprintf(text, sizeof text, "%s %s", strstr(t->text, "lr_policy") ? "" : "lr_policy: 'fixed'",
           t->text);
  case_load(&c, small_net, text);
  cr_replica *replica = &c.solver->replica[0];
  begin(replica->net);
  if (replica->average != NULL) ok(cr_average_start(replica->average));
  for (int step = 0; step < ITERATIONS; ++step) {
    const double rate = cr_rate_at(&c.solver->schedule, step, 0, &c.solver->rate);
    const double momentum = cr_momentum_at(&c.solver->schedule, step, rate);
    if (fabs(rate - t->rate[step]) > 1e-8) {
      fail_msg("%s: rate %d is %.10g, not %.10g", t->name, step, rate, t->rate[step]);
    }
    if (t->has_momenta) assert_true(fabs(momentum - t->momentum[step]) < 1e-7);
    set_gradients(replica->net, step);
    ok(cr_replica_update(replica, rate, step));
    compare_all(t, replica, step + 1);
  }
  case_end(&c);
}

TEST(trajectories_are_those_of_torch) {
  static trajectory t;
  static char line[4096];
  int cases = 0;
  FILE *file = fopen(TRAJECTORIES, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    const char *name = behind(line, "case");
    if (line[0] == '#') continue;
    if (name == NULL) {
      read_line(line, &t);
      continue;
    }
    if (cases++ > 0) run_trajectory(&t);
    t = (trajectory){0};
    snprintf(t.name, sizeof t.name, "%.60s", name);
  }
  run_trajectory(&t);
  assert_int_equal(cases, 13);
  (void)fclose(file);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
