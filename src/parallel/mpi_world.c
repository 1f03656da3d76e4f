#define _GNU_SOURCE /* secure_getenv */

#include "parallel/mpi_world.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/signals.h"
#include "core/system.h"

enum { FAILURE_TAG = 1 };

/* How long a failed process waits until the other processes have its message. */
static const double TELLING_SECONDS = 0.1, LEAVING_SECONDS = 1, LINGERING_SECONDS = 0.3;

static cr_mpi_world *of(cr_world *world) {
  return (cr_mpi_world *)world;
}

static int number_in_environment(const char *name) {
  const char *text = secure_getenv(name);
  return text == NULL ? 0 : atoi(text);
}

/* The number of processes started together: 0 for a single process, -1 if unknown. mpirun sets the
 * first variable. Slurm's srun sets the variable of PMIx (Open MPI) or PMI (other libraries). */
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

static crema_status check(cr_mpi_world *world, int code, const char *call) {
  char text[CR_MPI_TEXT] = "";
  int length = 0;
  if (code == CR_MPI_SUCCESS) return CREMA_OK;
  if (world->mpi.Error_string(code, text, &length) != CR_MPI_SUCCESS) text[0] = '\0';
  return cr_fail(CREMA_E_IO, "%s: %s", call, text[0] != '\0' ? text : "unknown error");
}

static crema_status start_mpi(cr_mpi_world *world) {
  int flag = 0;
  int provided = 0;
  CR_TRY(check(world, world->mpi.Initialized(&flag), "MPI_Initialized"));
  if (flag) return cr_fail(CREMA_E_STATE, "MPI was initialized in this process before");
  /* The threads that it starts inherit the mask. */
  cr_signals_hold();
  const int code = world->mpi.Init_thread(NULL, NULL, CR_MPI_THREAD_SERIALIZED, &provided);
  cr_signals_release();
  CR_TRY(check(world, code, "MPI_Init_thread"));
  CR_TRY(check(world, world->mpi.Comm_rank(world->mpi.comm_world, &world->base.rank),
               "MPI_Comm_rank"));
  CR_TRY(check(world, world->mpi.Comm_size(world->mpi.comm_world, &world->base.size),
               "MPI_Comm_size"));
  if (provided < CR_MPI_THREAD_SERIALIZED) {
    return cr_fail(CREMA_E_UNSUPPORTED, "this build of Open MPI allows no threads");
  }
  return CREMA_OK;
}

/* A process that cannot reach its launcher is its own world for Open MPI and would train
 * separately. */
static crema_status check_size(const cr_mpi_world *world) {
  const int expected = started_together();
  if (expected <= 0 || expected == world->base.size) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED,
                 "%d processes were started together, but Open MPI sees %d: start them with the "
                 "mpirun of the Open MPI whose libmpi.so.40 is used, or with srun --mpi=pmix",
                 expected, world->base.size);
}

/* `host` is the communicator of this host's processes. */
static crema_status watch_peers(cr_mpi_world *world, cr_mpi_handle host) {
  const cr_mpi *mpi = &world->mpi;
  const int count = world->base.local_size, bytes = (int)sizeof(cr_peer);
  cr_peer *all = NULL; /* and this process once more at the end, which MPI sends */
  cr_mpi_handle request = mpi->request_null;
  CR_TRY(CR_NEW(all, count + 1, "the processes of this host"));
  all[count] = cr_peer_self(world->base.rank);
  const int code =
      mpi->Iallgather(&all[count], bytes, mpi->byte, all, bytes, mpi->byte, host, &request);
  CR_TRY(check(world, code, "MPI_Iallgather"));
  CR_TRY(cr_mpi_world_wait(world, &request)); /* after a failure the memory is left to MPI */
  const crema_status status = cr_peer_watch_start(all, count, world->base.rank, &world->base.peers);
  free(all);
  return status;
}

static crema_status meet_peers(cr_mpi_world *world) {
  cr_mpi_handle host = NULL;
  const cr_mpi *mpi = &world->mpi;
  const int code = mpi->Comm_split_type(mpi->comm_world, CR_MPI_COMM_TYPE_SHARED, world->base.rank,
                                        mpi->info_null, &host);
  CR_TRY(check(world, code, "MPI_Comm_split_type"));
  CR_TRY(check(world, mpi->Comm_rank(host, &world->base.local_rank), "MPI_Comm_rank"));
  CR_TRY(check(world, mpi->Comm_size(host, &world->base.local_size), "MPI_Comm_size"));
  CR_TRY(watch_peers(world, host));
  return check(world, mpi->Comm_free(&host), "MPI_Comm_free");
}

static crema_status make_communicators(cr_mpi_world *world) {
  const cr_mpi *mpi = &world->mpi;
  CR_TRY(check(world, mpi->Comm_set_errhandler(mpi->comm_world, mpi->return_errors),
               "MPI_Comm_set_errhandler"));
  /* Duplicates inherit the handler. */
  CR_TRY(check(world, mpi->Comm_dup(mpi->comm_world, &world->control), "MPI_Comm_dup"));
  CR_TRY(check(world, mpi->Comm_dup(mpi->comm_world, &world->agreeing), "MPI_Comm_dup"));
  return meet_peers(world);
}

static void free_world(cr_mpi_world *world) {
  cr_world_end(&world->base);
  free(world->told);
  free(world);
}

static const cr_world_class mpi_class;

crema_status cr_world_join(cr_world **out) {
  cr_mpi_world *world = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(world, 1, "the world of processes"));
  cr_world_begin(&world->base, &mpi_class);
  CR_TRY_GOTO(cr_mpi_open(&world->mpi), fail);
  world->request = world->mpi.request_null;
  CR_TRY_GOTO(start_mpi(world), fail);
  CR_TRY_GOTO(check_size(world), fail);
  CR_TRY_GOTO(CR_NEW(world->told, world->base.size, "the requests of a process"), fail);
  for (int i = 0; i < world->base.size; ++i) world->told[i] = world->mpi.request_null;
  CR_TRY_GOTO(make_communicators(world), fail);
  *out = &world->base;
  return CREMA_OK;
fail:
  /* MPI_Finalize would wait for all processes. */
  free_world(world);
  return status;
}

crema_status cr_mpi_world_unlock(cr_mpi_world *world, int code, const char *call) {
  const crema_status status = check(world, code, call);
  pthread_mutex_unlock(&world->base.lock);
  return status;
}

/* Records a failure and sends it to the other processes. With the lock held. */
static void tell(cr_mpi_world *world, int rank, crema_status status, const char *reason) {
  cr_world_message *message = &world->base.failure;
  cr_world_note(&world->base, rank, status, reason);
  for (int i = 0; i < world->base.size; ++i) {
    if (i == world->base.rank || i == rank) continue;
    /* Complete when the other has received it. */
    (void)world->mpi.Issend(message, (int)sizeof *message, world->mpi.byte, i, FAILURE_TAG,
                            world->control, &world->told[i]);
  }
}

/* Receives a failure message if there is one. With the lock held, as below. */
static int receive(cr_mpi_world *world, cr_world_message *message, bool *received) {
  const cr_mpi *mpi = &world->mpi;
  cr_mpi_status from = {0};
  int found = 0;
  const int code = mpi->Iprobe(CR_MPI_ANY_SOURCE, FAILURE_TAG, world->control, &found, &from);
  *received = code == CR_MPI_SUCCESS && found;
  if (!*received) return code;
  /* The probe has found it, so this does not wait. */
  return mpi->Recv(message, (int)sizeof *message, mpi->byte, from.source, FAILURE_TAG,
                   world->control, NULL);
}

/* Records another rank's failure. */
static int listen(cr_mpi_world *world) {
  cr_world_message message;
  bool received = false;
  const int code = receive(world, &message, &received);
  if (code == CR_MPI_SUCCESS && received) cr_world_take(&world->base, &message);
  return code;
}

/* Its peers report a process that was killed. A process that failed has sent its message before it
 * ended. */
static int check_peers(cr_mpi_world *world) {
  const int ended = cr_peer_watch_ended(&world->base.peers);
  if (ended < 0) return CR_MPI_SUCCESS;
  const int code = listen(world);
  if (code == CR_MPI_SUCCESS && world->base.failed == CREMA_OK) {
    tell(world, ended, CREMA_E_IO, "the process has ended without saying why");
  }
  return code;
}

/* Peers are checked once in this number of turns of waiting. */
enum { LOOKS = 64 };

crema_status cr_mpi_world_wait(cr_mpi_world *world, cr_mpi_handle *request) {
  for (unsigned turn = 0;; ++turn) {
    int done = 0;
    CR_TRY(cr_world_lock(&world->base));
    int code = world->mpi.Test(request, &done, NULL);
    if (code == CR_MPI_SUCCESS && !done) code = listen(world);
    if (code == CR_MPI_SUCCESS && !done && turn % LOOKS == LOOKS - 1) {
      code = check_peers(world);
    }
    CR_TRY(cr_mpi_world_unlock(world, code, "MPI_Test"));
    if (done) return CREMA_OK;
    cr_clock_pause(turn);
  }
}

/* Ignores `since`: MPI's own waits have no limit either. */
static crema_status mpi_hear(cr_world *base, double since) {
  cr_mpi_world *world = of(base);
  (void)since;
  CR_TRY(cr_world_lock(base));
  int code = listen(world);
  if (code == CR_MPI_SUCCESS && base->failed == CREMA_OK) code = check_peers(world);
  CR_TRY(cr_mpi_world_unlock(world, code, "MPI_Iprobe"));
  CR_TRY(cr_world_lock(base));
  pthread_mutex_unlock(&base->lock);
  return CREMA_OK;
}

/* Whether all processes without this process's message have ended. With the lock held. */
static bool nobody_listens(cr_mpi_world *world) {
  for (int i = 0; i < world->base.size; ++i) {
    if (world->told[i] == world->mpi.request_null) continue;
    if (!cr_peer_watch_has_ended(&world->base.peers, i)) return false;
  }
  return true;
}

/* Whether all others have received this process's message. Waits at most `seconds`, and not for
 * processes that have ended. */
static bool have_heard(cr_mpi_world *world, double seconds) {
  const double end = cr_clock_seconds() + seconds;
  for (unsigned turn = 0;; ++turn) {
    cr_world_message another;
    bool received = false;
    int done = 0;
    pthread_mutex_lock(&world->base.lock);
    /* Another failed rank may be waiting for this one to receive its message. */
    (void)receive(world, &another, &received);
    const int code = world->mpi.Testall(world->base.size, world->told, &done, NULL);
    const bool vain = code == CR_MPI_SUCCESS && !done && turn % LOOKS == 0 && nobody_listens(world);
    pthread_mutex_unlock(&world->base.lock);
    if (code != CR_MPI_SUCCESS || done) return done;
    if (vain || cr_clock_seconds() > end) return false;
    cr_clock_pause(turn);
  }
}

static void mpi_fail(cr_world *base, crema_status status) {
  cr_mpi_world *world = of(base);
  pthread_mutex_lock(&base->lock);
  const bool first = base->failed == CREMA_OK;
  if (first) tell(world, base->rank, status, crema_error_text());
  pthread_mutex_unlock(&base->lock);
  if (first) (void)have_heard(world, TELLING_SECONDS);
}

/* Whether a message of this process is under way. No other thread uses the world. */
static bool is_telling(const cr_mpi_world *world) {
  for (int i = 0; i < world->base.size; ++i) {
    if (world->told[i] != world->mpi.request_null) return true;
  }
  return false;
}

static void mpi_leave(cr_world *base) {
  cr_mpi_world *world = of(base);
  const bool failed_before = world->base.failed != CREMA_OK;
  /* MPI_Finalize would also wait, but receive no messages. */
  crema_status status = cr_world_lock(base);
  if (status == CREMA_OK) {
    const int code = world->mpi.Ibarrier(world->agreeing, &world->request);
    status = cr_mpi_world_unlock(world, code, "MPI_Ibarrier");
  }
  if (status == CREMA_OK) status = cr_mpi_world_wait(world, &world->request);
  if (status == CREMA_OK) {
    (void)world->mpi.Finalize();
    free_world(world);
    return;
  }
  if (!failed_before) cr_log_error("%s", crema_error_text());
  /* Open MPI ends a process when one of its functions notices that a peer on another host has
   * disconnected. So a process that has heard of the failure stays for a while: the rest hear
   * first. It calls MPI only if its own message is under way. */
  if (world->base.failure.rank != world->base.rank) cr_clock_sleep(LINGERING_SECONDS);
  const bool heard = !is_telling(world) || have_heard(world, LEAVING_SECONDS);
  /* MPI_Finalize would wait for ranks that never call it. A process that ends without it makes
   * mpirun end the rest. */
  if (heard && world->request == world->mpi.request_null) free_world(world);
}

static crema_status mpi_gather(cr_world *base, size_t bytes) {
  cr_mpi_world *world = of(base);
  const cr_mpi *mpi = &world->mpi;
  CR_TRY(cr_world_lock(base));
  const int code = mpi->Iallgather(base->buffer, (int)bytes, mpi->byte, base->buffer + bytes,
                                   (int)bytes, mpi->byte, world->agreeing, &world->request);
  CR_TRY(cr_mpi_world_unlock(world, code, "MPI_Iallgather"));
  return cr_mpi_world_wait(world, &world->request);
}

static crema_status mpi_broadcast(cr_world *base, size_t bytes) {
  cr_mpi_world *world = of(base);
  const cr_mpi *mpi = &world->mpi;
  CR_TRY(cr_world_lock(base));
  const int code =
      mpi->Ibcast(base->buffer, (int)bytes, mpi->byte, 0, world->agreeing, &world->request);
  CR_TRY(cr_mpi_world_unlock(world, code, "MPI_Ibcast"));
  return cr_mpi_world_wait(world, &world->request);
}

static const cr_world_class mpi_class = {.name = "mpi",
                                         .gather = mpi_gather,
                                         .broadcast = mpi_broadcast,
                                         .hear = mpi_hear,
                                         .fail = mpi_fail,
                                         .leave = mpi_leave};

cr_mpi_world *cr_mpi_world_of(cr_world *world) {
  return world != NULL && world->class == &mpi_class ? of(world) : NULL;
}

crema_status cr_mpi_world_duplicate(cr_mpi_world *world, cr_mpi_handle *out) {
  CR_TRY(cr_world_lock(&world->base));
  const int code = world->mpi.Comm_idup(world->agreeing, &world->duplicate, &world->request);
  CR_TRY(cr_mpi_world_unlock(world, code, "MPI_Comm_idup"));
  CR_TRY(cr_mpi_world_wait(world, &world->request));
  *out = world->duplicate;
  return CREMA_OK;
}

void cr_mpi_world_free_communicator(cr_mpi_world *world, cr_mpi_handle *comm) {
  pthread_mutex_lock(&world->base.lock);
  if (world->base.failed == CREMA_OK) (void)world->mpi.Comm_free(comm);
  pthread_mutex_unlock(&world->base.lock);
}

void cr_mpi_world_free_operation(cr_mpi_world *world, cr_mpi_handle *operation) {
  pthread_mutex_lock(&world->base.lock);
  if (world->base.failed == CREMA_OK) (void)world->mpi.Op_free(operation);
  pthread_mutex_unlock(&world->base.lock);
}
