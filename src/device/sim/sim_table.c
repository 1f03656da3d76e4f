/* The entry points of the simulation: options, start and stop, the back-end table. */
#include "device/sim/sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/c_locale.h"
#include "core/fail.h"
#include "core/log.h"
#include "device/cpu/onednn/ready.h"
#include "device/cpu/threads/threads.h"
#include "device/memory/host_memory.h"
#include "device/sim/sim_world.h"

enum { LIBRARY_VERSION = 1 };

/* The longest latency, in seconds, and the lowest bandwidth, in bytes per second, for which a run
 * still ends. */
static const double MOST_LATENCY = 3600, LEAST_BANDWIDTH = 1000;

cr_sim_options cr_sim_defaults(void) {
  cr_sim_options options = {.devices = 1, .memory = (size_t)4 << 30};
  for (int a = 0; a < CR_SIM_MAX_DEVICES; ++a) {
    options.board[a] = a;
    for (int b = 0; b < CR_SIM_MAX_DEVICES; ++b) options.peer[a][b] = a != b;
  }
  return options;
}

/* A number, perhaps with a K, M or G (powers of 1024 for sizes, of 1000 otherwise). */
static bool parse_number(const char *text, double thousand, double *out) {
  char *end = NULL;
  double value = strtod(text, &end);
  if (end == text || !(value >= 0) || isinf(value)) return false;
  static const char units[] = "KMG";
  const char *unit = *end == '\0' ? NULL : strchr(units, *end);
  if (unit != NULL) {
    value *= pow(thousand, (double)(unit - units + 1));
    ++end;
  }
  *out = value;
  return *end == '\0' && !isinf(value);
}

/* Devices that reach each other: all, none, or groups of devices in a row. */
static bool parse_peers(const char *text, cr_sim_options *options) {
  static const char islands[] = "islands:";
  double group = 0;
  if (strcmp(text, "all") == 0) {
    group = CR_SIM_MAX_DEVICES;
  } else if (strcmp(text, "none") == 0) {
    group = 1;
  } else if (strncmp(text, islands, strlen(islands)) != 0 ||
             !parse_number(text + strlen(islands), 1000, &group)) {
    return false;
  }
  if (group < 1 || group > CR_SIM_MAX_DEVICES || group != floor(group)) return false;
  for (int a = 0; a < CR_SIM_MAX_DEVICES; ++a) {
    for (int b = 0; b < CR_SIM_MAX_DEVICES; ++b) {
      options->peer[a][b] = a != b && a / (int)group == b / (int)group;
    }
  }
  return true;
}

static bool is_speed(double value) {
  return value <= 0 || value >= LEAST_BANDWIDTH;
}

static bool parse_entry(const char *name, const char *text, cr_sim_options *options) {
  double value = 0;
  bool size = strcmp(name, "memory") == 0;
  if (strcmp(name, "peers") == 0) return parse_peers(text, options);
  if (!parse_number(text, size ? 1024 : 1000, &value)) return false;
  if (size && value < 1e15) {
    options->memory = (size_t)value;
  } else if (strcmp(name, "devices") == 0 && value <= CR_SIM_MAX_DEVICES && value == floor(value)) {
    options->devices = (int)value;
  } else if (strcmp(name, "bandwidth") == 0 && is_speed(value)) {
    options->bandwidth = value;
  } else if (strcmp(name, "latency") == 0 && value <= MOST_LATENCY) {
    options->latency = value;
  } else if (strcmp(name, "peer_bandwidth") == 0 && is_speed(value)) {
    options->peer_bandwidth = value;
  } else if (strcmp(name, "peer_latency") == 0 && value <= MOST_LATENCY) {
    options->peer_latency = value;
  } else if (strcmp(name, "boards") == 0 && value >= 1 && value <= CR_SIM_MAX_DEVICES &&
             value == floor(value)) {
    for (int a = 0; a < CR_SIM_MAX_DEVICES; ++a) options->board[a] = a / (int)value;
  } else if (strcmp(name, "stepped") == 0) {
    options->stepped = value != 0;
  } else if (strcmp(name, "races") == 0) {
    options->check_races = value != 0;
  } else {
    return false;
  }
  return true;
}

static crema_status parse(const char *text, cr_sim_options *options) {
  while (*text != '\0') {
    char entry[64];
    size_t length = strcspn(text, ",");
    if (length >= sizeof entry) {
      return cr_fail(CREMA_E_PARSE, "simulation: \"%s\" is too long", text);
    }
    memcpy(entry, text, length);
    entry[length] = '\0';
    char *equals = strchr(entry, '=');
    if (equals != NULL) *equals = '\0';
    if (equals == NULL || !parse_entry(entry, equals + 1, options)) {
      if (equals != NULL) *equals = '=';
      return cr_fail(
          CREMA_E_PARSE,
          "simulation: cannot understand \"%s\"; entries are devices, memory, bandwidth, "
          "latency, peer_bandwidth, peer_latency, boards, peers, stepped, races",
          entry);
    }
    text += length + (text[length] == ',');
  }
  return CREMA_OK;
}

crema_status cr_sim_parse(const char *text, cr_sim_options *options) {
  cr_c_locale locale;
  CR_TRY(cr_c_locale_begin(&locale));
  crema_status status = parse(text, options);
  cr_c_locale_end(&locale);
  return status;
}

static crema_status reserve_memory(sim_world *w) {
  w->span = (w->options.memory + ((size_t)2 << 20) - 1) >> 21 << 21;
  /* One large page between the devices, so that no overrun reaches a neighbour. */
  w->span += (size_t)2 << 20;
  size_t bytes = w->span * (size_t)(w->options.devices > 0 ? w->options.devices : 1);
  w->addresses = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  w->bytes =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (w->addresses == MAP_FAILED || w->bytes == MAP_FAILED) {
    if (w->addresses != MAP_FAILED) munmap(w->addresses, bytes);
    if (w->bytes != MAP_FAILED) munmap(w->bytes, bytes);
    return cr_fail_memory(bytes, "simulated devices");
  }
#ifdef MADV_HUGEPAGE
  (void)madvise(w->bytes, bytes, MADV_HUGEPAGE); /* advice only */
#endif
  return CREMA_OK;
}

static crema_status start_locked(const cr_sim_options *options) {
  sim_world *w = &cr_sim_world;
  if (w->running) return cr_fail(CREMA_E_STATE, "a simulation is running already");
  if (options->devices < 0 || options->devices > CR_SIM_MAX_DEVICES) {
    return cr_fail(CREMA_E_RANGE, "%d simulated devices; 0 to %d are possible", options->devices,
                   CR_SIM_MAX_DEVICES);
  }
  w->options = *options;
  CR_TRY(reserve_memory(w));
  for (int i = 0; i < CR_SIM_MAX_DEVICES; ++i) w->device[i] = (sim_device){.index = i};
  memset(w->count, 0, sizeof w->count);
  memset(w->byte_count, 0, sizeof w->byte_count);
  memset(&w->host, 0, sizeof w->host);
  w->faults = 0;
  w->accesses = 0;
  w->races = 0;
  w->race_text[0] = '\0';
  w->log_size = 0;
  w->open_streams = 0;
  w->events = 0;
  w->unloading = false;
  w->mistake = CR_SIM_SOUND;
  cr_sim_make_kernels();
  w->running = true;
  return CREMA_OK;
}

crema_status cr_sim_begin(const cr_sim_options *options) {
  sim_lock();
  crema_status status = start_locked(options);
  sim_unlock();
  return status;
}

bool cr_sim_running(void) {
  sim_lock();
  bool running = cr_sim_world.running;
  sim_unlock();
  return running;
}

void cr_sim_end(void) {
  sim_world *w = &cr_sim_world;
  cr_sim_end_streams();
  sim_lock();
  for (size_t i = 0; i < w->pinned_count; ++i) cr_host_free(w->pinned[i].data);
  cr_sim_free_kept();
  free(w->pinned);
  w->pinned = NULL;
  w->pinned_count = w->pinned_capacity = 0;
  free(w->log);
  w->log = NULL;
  w->log_size = w->log_capacity = 0;
  for (int i = 0; i < CR_SIM_MAX_DEVICES; ++i) free(w->device[i].block);
  size_t bytes = w->span * (size_t)(w->options.devices > 0 ? w->options.devices : 1);
  munmap(w->addresses, bytes);
  munmap(w->bytes, bytes);
  w->running = false;
  sim_unlock();
}

crema_status cr_sim_begin_from(const char *text) {
  cr_sim_options options = cr_sim_defaults();
  char *end = NULL;
  long devices = strtol(text, &end, 10);
  if (end != text && *end == '\0') {
    options.devices = devices < 1 || devices > CR_MAX_DEVICES ? 0 : (int)devices;
  } else {
    CR_TRY(cr_sim_parse(text, &options));
  }
  if (options.devices < 1 || options.devices > CR_MAX_DEVICES) {
    return cr_fail(CREMA_E_RANGE, "simulation \"%s\": 1 to %d devices are possible", text,
                   CR_MAX_DEVICES);
  }
  return cr_sim_begin(&options);
}

/* The environment may request a simulation; it is read once, at the first query for devices. */
static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

static void start_from_environment(void) {
  const char *text = getenv("CREMA_SIM");
  if (text == NULL || text[0] == '\0' || cr_sim_running()) return;
  if (cr_sim_begin_from(text) != CREMA_OK) cr_log_warning("CREMA_SIM: %s", crema_error_text());
}

static crema_status sim_count(int *out) {
  pthread_once(&environment_once, start_from_environment);
  sim_lock();
  bool running = cr_sim_world.running;
  int devices = running ? cr_sim_world.options.devices : 0;
  crema_status failure = running ? cr_sim_world.options.count_failure : CREMA_OK;
  /* Counted, not logged: there is no device yet that it could be logged for. */
  if (running) ++cr_sim_world.count[CR_SIM_COUNT][0];
  sim_unlock();
  *out = 0;
  if (failure != CREMA_OK) return cr_fail(failure, "simulated driver failure");
  *out = devices;
  return CREMA_OK;
}

static crema_status sim_open(crema_device *device) {
  int version = cr_sim_world.options.library_version;
  if (version != 0 && version != LIBRARY_VERSION) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "the DNN library is version %d, but crema was built for version %d", version,
                   LIBRARY_VERSION);
  }
  sim_device *d = &cr_sim_world.device[device->index];
  d->device = device;
  device->state = d;
  device->memory_bytes = cr_sim_world.options.memory;
  return CREMA_OK;
}

static void sim_close(crema_device *device) {
  cr_sim_device(device)->device = NULL;
}

static crema_status sim_describe(crema_device *device, crema_device_info *out) {
  sim_lock();
  crema_status status =
      cr_sim_note(&(cr_sim_record){.op = CR_SIM_DESCRIBE, .device = device->index}, NULL);
  sim_unlock();
  CR_TRY(status);
  snprintf(out->name, sizeof out->name, "simulated device %d", device->index);
  snprintf(out->library, sizeof out->library, "the kernels of the CPU");
  out->compute_units = 1;
  out->capability_major = 1;
  out->memory_total = cr_sim_world.options.memory;
  return CREMA_OK;
}

static crema_status sim_host_alias(crema_device *device, void *memory, crema_devptr *out) {
  if (!cr_sim_is_pinned(memory)) {
    return cr_fail(CREMA_E_ARGUMENT, "host memory at %#zx is not page-locked for sim:%d",
                   (size_t)memory, device->index);
  }
  out->address = (uintptr_t)memory;
  return CREMA_OK;
}

static bool sim_can_access_peer(crema_device *device, crema_device *peer) {
  return cr_sim_world.options.peer[device->index][peer->index];
}

static bool sim_same_board(crema_device *device, crema_device *peer) {
  const int *board = cr_sim_world.options.board;
  return board[device->index] == board[peer->index];
}

static crema_status sim_enable_peer(crema_device *device, crema_device *peer) {
  if (!sim_can_access_peer(device, peer)) {
    return cr_fail(CREMA_E_DEVICE, "sim:%d cannot reach sim:%d", device->index, peer->index);
  }
  sim_lock();
  crema_status status = cr_sim_note(
      &(cr_sim_record){
          .op = CR_SIM_ENABLE_PEER, .device = device->index, .src = (uintptr_t)peer->index},
      NULL);
  if (status == CREMA_OK) cr_sim_device(device)->peer_on[peer->index] = true;
  sim_unlock();
  return status;
}

/* Kernels run on the stream's thread, which enters and leaves them itself (sim_kernel.c). */
static const cr_host_scheduler scheduler = {.threads = cr_cpu_threads_of};

const cr_backend cr_backend_sim = {
    .type = CREMA_DEVICE_SIM,
    .name = "sim",
    .host_memory = false,
    .count = sim_count,
    .open = sim_open,
    .close = sim_close,
    .describe = sim_describe,
    .alloc = cr_sim_alloc,
    .free = cr_sim_free,
    .host_alloc = cr_sim_host_alloc,
    .host_free = cr_sim_host_free,
    .context_open = cr_sim_context_open,
    .context_close = cr_sim_context_close,
    .finish = cr_sim_finish,
    .failure = cr_sim_failure,
    .copy = cr_sim_copy,
    .zero = cr_sim_zero,
    .convert = cr_sim_convert,
    .event_create = cr_sim_event_create,
    .event_destroy = cr_sim_event_destroy,
    .event_record = cr_sim_event_record,
    .event_wait = cr_sim_event_wait,
    .event_query = cr_sim_event_query,
    .event_finish = cr_sim_event_finish,
    .host_alias = sim_host_alias,
    .memory_info = cr_sim_memory_info,
    .busy = cr_sim_busy,
    .owner = cr_sim_owner,
    .set_current = cr_sim_set_current,
    .enter_device = cr_sim_enter_device,
    .leave_device = cr_sim_leave_device,
    .can_access_peer = sim_can_access_peer,
    .same_board = sim_same_board,
    .enable_peer = sim_enable_peer,
    .host_access = cr_sim_host_access,
    .ready = cr_cpu_ready,
    .scheduler = &scheduler,
    .kernels = cr_sim_kernels,
};
