/* How the threads of a long-running command wait for each other.
 *
 * GCC's OpenMP library lets idle threads spin for about 5 ms before they sleep. When another
 * program takes one of the cores, every parallel loop then waits for a thread that is not
 * running while the spinning ones hold the cores: LeNet's training fell from 90 to 5 iterations
 * a second beside two busy programs. With 0.1 ms it is as fast on an idle machine and three to
 * four times as fast on a busy one. The library reads its settings only when a process starts, so
 * the command starts itself anew. */
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

void cli_limit_spinning(char **argv) {
  if (getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL) return;
  char path[4096];
  ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  if (size <= 0 || setenv("GOMP_SPINCOUNT", "5000", 1) != 0) return;
  path[size] = '\0';
  execv(path, argv); /* returns only when it fails; then all goes on as before */
}
