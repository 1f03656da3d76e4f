#define _GNU_SOURCE /* secure_getenv */

#include "parallel/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/signals.h"
#include "parallel/world_private.h"

enum { FAILURE_TAG = 1, BROADCAST_PIECE = 1 << 20 };

/* How long a process that failed waits for the others to have heard of it. */
static const double TELLING_SECONDS = 0.1, LEAVING_SECONDS = 1, LINGERING_SECONDS = 0.3;

/* ---- starting ---- */

static int number_in_environment(const char *name) {
  const char *text = secure_getenv(name);
  return text == NULL ? 0 : atoi(text);
}

/* How many processes were started together with this one: 0 when it was started alone, -1 when
 * nothing says how many. mpirun sets the first variable; Slurm's srun those of PMIx (Open MPI) or
 * PMI (others). */
static int started_together(void) {
  int count = number_in_environment("OMPI_COMM_WORLD_SIZE");
  if (count > 0) return count;
  if (secure_getenv("PMIX_NAMESPACE") != NULL && secure_getenv("PMIX_RANK") != NULL) {
    count = number_in_environment("SLURM_STEP_NUM_TASKS");
    return count > 0 ? count : -1;
  }
  count = number_in_environment("PMI_SIZE");
  return count > 0 ? count : 0;
}

bool cr_world_is_there(void) {
  const int count = started_together();
  return count < 0 || count > 1;
}

static crema_status mpi_error(cr_world *world, int code, const char *call) {
  char text[CR_MPI_TEXT] = "";
  int length = 0;
  if (world->mpi.Error_string(code, text, &length) != CR_MPI_SUCCESS) text[0] = '\0';
  return cr_fail(CREMA_E_IO, "%s: %s", call, text[0] != '\0' ? text : "unknown error");
}

static crema_status check(cr_world *world, int code, const char *call) {
  return code == CR_MPI_SUCCESS ? CREMA_OK : mpi_error(world, code, call);
}

static crema_status start_mpi(cr_world *world) {
  int flag = 0;
  int provided = 0;
  CR_TRY(check(world, world->mpi.Initialized(&flag), "MPI_Initialized"));
  if (flag) return cr_fail(CREMA_E_STATE, "MPI was initialized in this process before");
  /* The threads that it starts inherit the mask. */
  cr_signals_hold();
  const int code = world->mpi.Init_thread(NULL, NULL, CR_MPI_THREAD_SERIALIZED, &provided);
  cr_signals_release();
  CR_TRY(check(world, code, "MPI_Init_thread"));
  CR_TRY(check(world, world->mpi.Comm_rank(world->mpi.comm_world, &world->rank), "MPI_Comm_rank"));
  CR_TRY(check(world, world->mpi.Comm_size(world->mpi.comm_world, &world->size), "MPI_Comm_size"));
  if (provided < CR_MPI_THREAD_SERIALIZED) {
    return cr_fail(CREMA_E_UNSUPPORTED, "this build of Open MPI allows no threads");
  }
  return CREMA_OK;
}

/* A process that cannot reach what started it is a world of its own for Open MPI: each would train
 * by itself. */
static crema_status check_size(const cr_world *world) {
  const int expected = started_together();
  if (expected <= 0 || expected == world->size) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED,
                 "%d processes were started together, but Open MPI sees %d: start them with the "
                 "mpirun of the Open MPI whose libmpi.so.40 is used, or with srun --mpi=pmix",
                 expected, world->size);
}

/* `host` is the communicator of this host's processes. */
static crema_status watch_neighbours(cr_world *world, cr_mpi_handle host) {
  const cr_mpi *mpi = &world->mpi;
  const cr_neighbour self = cr_neighbour_self(world->rank);
  cr_neighbour *all = NULL;
  cr_mpi_handle request = mpi->request_null;
  CR_TRY(CR_NEW(all, world->local_size, "the processes of this host"));
  crema_status status = check(world,
                              mpi->Iallgather(&self, (int)sizeof self, mpi->byte, all,
                                              (int)sizeof self, mpi->byte, host, &request),
                              "MPI_Iallgather");
  if (status == CREMA_OK) status = cr_world_wait(world, &request);
  if (status == CREMA_OK) {
    status = cr_neighbours_watch(all, world->local_size, world->rank, &world->neighbours);
  }
  if (request == mpi->request_null) free(all);
  return status;
}

static crema_status meet_neighbours(cr_world *world) {
  cr_mpi_handle host = NULL;
  const cr_mpi *mpi = &world->mpi;
  const int code = mpi->Comm_split_type(mpi->comm_world, CR_MPI_COMM_TYPE_SHARED, world->rank,
                                        mpi->info_null, &host);
  CR_TRY(check(world, code, "MPI_Comm_split_type"));
  CR_TRY(check(world, mpi->Comm_rank(host, &world->local_rank), "MPI_Comm_rank"));
  CR_TRY(check(world, mpi->Comm_size(host, &world->local_size), "MPI_Comm_size"));
  CR_TRY(watch_neighbours(world, host));
  return check(world, mpi->Comm_free(&host), "MPI_Comm_free");
}

static crema_status make_communicators(cr_world *world) {
  const cr_mpi *mpi = &world->mpi;
  CR_TRY(check(world, mpi->Comm_set_errhandler(mpi->comm_world, mpi->return_errors),
               "MPI_Comm_set_errhandler"));
  /* Duplicates have the handler of what they were made from. */
  CR_TRY(check(world, mpi->Comm_dup(mpi->comm_world, &world->control), "MPI_Comm_dup"));
  CR_TRY(check(world, mpi->Comm_dup(mpi->comm_world, &world->agreeing), "MPI_Comm_dup"));
  return meet_neighbours(world);
}

static crema_status prepare_telling(cr_world *world) {
  CR_TRY(CR_NEW(world->told, world->size, "the requests of a process"));
  for (int i = 0; i < world->size; ++i) world->told[i] = world->mpi.request_null;
  return CREMA_OK;
}

static void free_world(cr_world *world) {
  pthread_mutex_destroy(&world->lock);
  free(world->buffer);
  free(world->told);
  cr_neighbours_free(&world->neighbours);
  free(world);
}

crema_status cr_world_join(cr_world **out) {
  cr_world *world = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(world, 1, "the world of processes"));
  pthread_mutex_init(&world->lock, NULL);
  CR_TRY_GOTO(cr_mpi_open(&world->mpi), fail);
  world->request = world->mpi.request_null;
  CR_TRY_GOTO(start_mpi(world), fail);
  CR_TRY_GOTO(check_size(world), fail);
  CR_TRY_GOTO(prepare_telling(world), fail);
  CR_TRY_GOTO(make_communicators(world), fail);
  *out = world;
  return CREMA_OK;
fail:
  /* MPI_Finalize would wait for the others. */
  free_world(world);
  return status;
}

int cr_world_rank(const cr_world *world) {
  return world != NULL ? world->rank : 0;
}

int cr_world_size(const cr_world *world) {
  return world != NULL ? world->size : 1;
}

int cr_world_local_rank(const cr_world *world) {
  return world != NULL ? world->local_rank : 0;
}

int cr_world_local_size(const cr_world *world) {
  return world != NULL ? world->local_size : 1;
}

/* ---- waiting ---- */

static crema_status failure_of(const cr_world *world) {
  return cr_fail(world->failed, "rank %d (%s): %s", (int)world->failure.rank, world->failure.host,
                 world->failure.reason);
}

crema_status cr_world_lock(cr_world *world) {
  pthread_mutex_lock(&world->lock);
  if (world->failed == CREMA_OK) return CREMA_OK;
  const crema_status status = failure_of(world);
  pthread_mutex_unlock(&world->lock);
  return status;
}

crema_status cr_world_unlock(cr_world *world, int code, const char *call) {
  const crema_status status = check(world, code, call);
  pthread_mutex_unlock(&world->lock);
  return status;
}

/* Takes note of a failure and tells the others. With the lock held. */
static void tell(cr_world *world, int rank, crema_status status, const char *reason) {
  cr_world_message *message = &world->failure;
  message->status = status;
  message->rank = rank;
  (void)gethostname(message->host, sizeof message->host - 1);
  snprintf(message->reason, sizeof message->reason, "%s", reason);
  world->failed = status;
  for (int i = 0; i < world->size; ++i) {
    if (i == world->rank || i == rank) continue;
    /* Done when the other has received it. */
    (void)world->mpi.Issend(message, (int)sizeof *message, world->mpi.byte, i, FAILURE_TAG,
                            world->control, &world->told[i]);
  }
}

/* Receives a failure message when there is one. With the lock held, as below. */
static int receive(cr_world *world, cr_world_message *message, bool *received) {
  const cr_mpi *mpi = &world->mpi;
  cr_mpi_status from = {0};
  int found = 0;
  const int code = mpi->Iprobe(CR_MPI_ANY_SOURCE, FAILURE_TAG, world->control, &found, &from);
  *received = code == CR_MPI_SUCCESS && found;
  if (!*received) return code;
  /* The probe has seen it: this does not wait. */
  return mpi->Recv(message, (int)sizeof *message, mpi->byte, from.source, FAILURE_TAG,
                   world->control, NULL);
}

/* Takes note of another rank's failure. */
static int listen(cr_world *world) {
  cr_world_message *message = &world->failure;
  bool received = false;
  const int code = receive(world, message, &received);
  if (code != CR_MPI_SUCCESS || !received) return code;
  message->host[CR_WORLD_HOST - 1] = '\0';
  message->reason[CR_WORLD_REASON - 1] = '\0';
  world->failed = (crema_status)message->status;
  return CR_MPI_SUCCESS;
}

/* A killed process's neighbours speak for it. One that failed by itself has sent its message before
 * it ended. */
static int look_after_neighbours(cr_world *world) {
  const int ended = cr_neighbours_ended(&world->neighbours);
  if (ended < 0) return CR_MPI_SUCCESS;
  const int code = listen(world);
  if (code == CR_MPI_SUCCESS && world->failed == CREMA_OK) {
    tell(world, ended, CREMA_E_IO, "the process has ended without saying why");
  }
  return code;
}

/* Neighbours are looked after in one of so many turns of waiting. */
enum { LOOKS = 64 };

crema_status cr_world_wait(cr_world *world, cr_mpi_handle *request) {
  for (unsigned turn = 0;; ++turn) {
    int done = 0;
    CR_TRY(cr_world_lock(world));
    int code = world->mpi.Test(request, &done, NULL);
    if (code == CR_MPI_SUCCESS && !done) code = listen(world);
    if (code == CR_MPI_SUCCESS && !done && turn % LOOKS == LOOKS - 1) {
      code = look_after_neighbours(world);
    }
    CR_TRY(cr_world_unlock(world, code, "MPI_Test"));
    if (done) return CREMA_OK;
    cr_clock_pause(turn);
  }
}

crema_status cr_world_hear(cr_world *world) {
  CR_TRY(cr_world_lock(world));
  int code = listen(world);
  if (code == CR_MPI_SUCCESS && world->failed == CREMA_OK) code = look_after_neighbours(world);
  CR_TRY(cr_world_unlock(world, code, "MPI_Iprobe"));
  CR_TRY(cr_world_lock(world));
  pthread_mutex_unlock(&world->lock);
  return CREMA_OK;
}

/* ---- failing and leaving ---- */

/* Whether those who have not received this process's message have all ended. With the lock held. */
static bool nobody_listens(cr_world *world) {
  for (int i = 0; i < world->size; ++i) {
    if (world->told[i] == world->mpi.request_null) continue;
    if (!cr_neighbours_has_ended(&world->neighbours, i)) return false;
  }
  return true;
}

/* Whether all others have received this process's message; waits at most `seconds`, and for nobody
 * who has ended. */
static bool have_heard(cr_world *world, double seconds) {
  const double end = cr_clock_seconds() + seconds;
  for (unsigned turn = 0;; ++turn) {
    cr_world_message another;
    bool received = false;
    int done = 0;
    pthread_mutex_lock(&world->lock);
    /* Of a rank that failed as well, and waits for this one to hear of it. */
    (void)receive(world, &another, &received);
    const int code = world->mpi.Testall(world->size, world->told, &done, NULL);
    const bool vain = code == CR_MPI_SUCCESS && !done && turn % LOOKS == 0 && nobody_listens(world);
    pthread_mutex_unlock(&world->lock);
    if (code != CR_MPI_SUCCESS || done) return done;
    if (vain || cr_clock_seconds() > end) return false;
    cr_clock_pause(turn);
  }
}

void cr_world_fail(cr_world *world, crema_status status) {
  if (world == NULL || status == CREMA_OK) return;
  pthread_mutex_lock(&world->lock);
  const bool first = world->failed == CREMA_OK;
  if (first) tell(world, world->rank, status, crema_error_text());
  pthread_mutex_unlock(&world->lock);
  if (first) (void)have_heard(world, TELLING_SECONDS);
}

/* Whether a message of this process is still on its way. With no other thread in the world. */
static bool is_telling(const cr_world *world) {
  for (int i = 0; i < world->size; ++i) {
    if (world->told[i] != world->mpi.request_null) return true;
  }
  return false;
}

/* Waits for the others. */
static crema_status meet(cr_world *world) {
  CR_TRY(cr_world_lock(world));
  CR_TRY(cr_world_unlock(world, world->mpi.Ibarrier(world->agreeing, &world->request),
                         "MPI_Ibarrier"));
  return cr_world_wait(world, &world->request);
}

void cr_world_leave(cr_world *world) {
  if (world == NULL) return;
  const bool failed_before = world->failed != CREMA_OK;
  /* MPI_Finalize would wait as well, but hear nothing. */
  const crema_status status = meet(world);
  if (status == CREMA_OK) {
    (void)world->mpi.Finalize();
    free_world(world);
    return;
  }
  if (!failed_before) cr_log_error("%s", crema_error_text());
  /* Between hosts Open MPI ends a process whose peer has disconnected, from whichever of its
   * functions notices it. So that others hear before, one that has heard stays for a while, and it
   * calls nothing more of MPI unless it has something to say itself. */
  if (world->failure.rank != world->rank) cr_clock_sleep(LINGERING_SECONDS);
  const bool heard = !is_telling(world) || have_heard(world, LEAVING_SECONDS);
  /* Ranks that do not come to it would keep MPI_Finalize for ever: a process that ends without it
   * makes mpirun end the others. */
  if (heard && world->request == world->mpi.request_null) free_world(world);
}

/* ---- agreeing ---- */

static crema_status reserve(cr_world *world, size_t bytes) {
  /* After a failure MPI may still be using the buffer. */
  CR_TRY(cr_world_lock(world));
  pthread_mutex_unlock(&world->lock);
  if (bytes <= world->buffer_bytes) return CREMA_OK;
  char *buffer = realloc(world->buffer, bytes);
  if (buffer == NULL) return cr_fail_memory(bytes, "a message");
  world->buffer = buffer;
  world->buffer_bytes = bytes;
  return CREMA_OK;
}

/* buffer[0 .. bytes - 1] of all ranks come to lie behind each other, in order, after this rank's.
 */
static crema_status gather(cr_world *world, size_t bytes) {
  const cr_mpi *mpi = &world->mpi;
  CR_TRY(cr_world_lock(world));
  const int code = mpi->Iallgather(world->buffer, (int)bytes, mpi->byte, world->buffer + bytes,
                                   (int)bytes, mpi->byte, world->agreeing, &world->request);
  CR_TRY(cr_world_unlock(world, code, "MPI_Iallgather"));
  return cr_world_wait(world, &world->request);
}

crema_status cr_world_agree(cr_world *world, double *sum, int sums, int64_t *max, int maxima) {
  if (world == NULL) return CREMA_OK;
  const size_t sum_bytes = (size_t)sums * sizeof *sum;
  const size_t max_bytes = (size_t)maxima * sizeof *max;
  const size_t bytes = sum_bytes + max_bytes;
  CR_TRY(reserve(world, bytes * ((size_t)world->size + 1)));
  if (sums > 0) memcpy(world->buffer, sum, sum_bytes);
  if (maxima > 0) memcpy(world->buffer + sum_bytes, max, max_bytes);
  CR_TRY(gather(world, bytes));
  for (int r = 0; r < world->size; ++r) {
    const char *theirs = world->buffer + bytes * ((size_t)r + 1);
    for (int i = 0; i < sums; ++i) {
      double value = 0;
      memcpy(&value, theirs + (size_t)i * sizeof value, sizeof value);
      sum[i] = r == 0 ? value : sum[i] + value;
    }
    for (int i = 0; i < maxima; ++i) {
      int64_t value = 0;
      memcpy(&value, theirs + sum_bytes + (size_t)i * sizeof value, sizeof value);
      if (value > max[i]) max[i] = value;
    }
  }
  return CREMA_OK;
}

crema_status cr_world_broadcast(cr_world *world, void *bytes, size_t size) {
  if (world == NULL) return CREMA_OK;
  const cr_mpi *mpi = &world->mpi;
  CR_TRY(reserve(world, size < BROADCAST_PIECE ? size : BROADCAST_PIECE));
  for (size_t done = 0; done < size;) {
    const size_t piece = size - done < BROADCAST_PIECE ? size - done : BROADCAST_PIECE;
    if (world->rank == 0) memcpy(world->buffer, (const char *)bytes + done, piece);
    CR_TRY(cr_world_lock(world));
    const int code =
        mpi->Ibcast(world->buffer, (int)piece, mpi->byte, 0, world->agreeing, &world->request);
    CR_TRY(cr_world_unlock(world, code, "MPI_Ibcast"));
    CR_TRY(cr_world_wait(world, &world->request));
    if (world->rank != 0) memcpy((char *)bytes + done, world->buffer, piece);
    done += piece;
  }
  return CREMA_OK;
}

crema_status cr_world_same_spans(cr_world *world, const cr_span *span, int spans) {
  uint64_t digest = 14695981039346656037u; /* FNV-1a */
  int64_t total = 0;
  for (int i = 0; i < spans; ++i) {
    total += span[i].count;
    digest = (digest ^ (uint64_t)span[i].count) * 1099511628211u;
    digest = (digest ^ (uint64_t)span[i].type) * 1099511628211u;
  }
  const int64_t mine[] = {spans, total, (int64_t)(digest >> 1)};
  int64_t most[6];
  for (int i = 0; i < 3; ++i) {
    most[2 * i] = mine[i];
    most[2 * i + 1] = -mine[i];
  }
  CR_TRY(cr_world_agree(world, NULL, 0, most, 6));
  for (int i = 0; i < 3; ++i) {
    if (most[2 * i] == -most[2 * i + 1]) continue;
    return cr_fail(CREMA_E_SHAPE,
                   "the processes do not train the same net: %d gradients of %lld values in this "
                   "one, others in another",
                   spans, (long long)total);
  }
  return CREMA_OK;
}

crema_status cr_world_duplicate(cr_world *world, cr_mpi_handle *out) {
  CR_TRY(cr_world_lock(world));
  const int code = world->mpi.Comm_idup(world->agreeing, &world->duplicate, &world->request);
  CR_TRY(cr_world_unlock(world, code, "MPI_Comm_idup"));
  CR_TRY(cr_world_wait(world, &world->request));
  *out = world->duplicate;
  return CREMA_OK;
}

void cr_world_free_communicator(cr_world *world, cr_mpi_handle *comm) {
  pthread_mutex_lock(&world->lock);
  if (world->failed == CREMA_OK) (void)world->mpi.Comm_free(comm);
  pthread_mutex_unlock(&world->lock);
}

void cr_world_free_operation(cr_world *world, cr_mpi_handle *operation) {
  pthread_mutex_lock(&world->lock);
  if (world->failed == CREMA_OK) (void)world->mpi.Op_free(operation);
  pthread_mutex_unlock(&world->lock);
}
