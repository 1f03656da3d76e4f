/* The list of back ends and the devices opened so far: the only file that knows which back ends
 * exist. */
#include "device/registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/signals.h"
#include "device/backend/current.h"
#include "device/device.h"
#include "device/memory/pool.h"
#include "device/plugin.h"

enum { PEER_GROUP = 8 };

/* The back ends that are built in, indexed by crema_device_type. */
static const cr_backend *const built_in[CR_DEVICE_TYPES] = {
    [CREMA_DEVICE_CPU] = &cr_backend_cpu,
    [CREMA_DEVICE_SIM] = &cr_backend_sim,
};

/* A back end's answer to the query for its devices (S1-39). */
typedef struct device_count {
  bool known;
  int devices;
  crema_status status;
  char text[512]; /* of a failure */
} device_count;

static struct {
  pthread_mutex_t lock;
  pthread_mutex_t count_lock; /* guards `count`; never held while a back end is queried */
  device_count count[CR_DEVICE_TYPES];
  const cr_backend *_Atomic plugin[CR_DEVICE_TYPES];
  crema_device *_Atomic device[CR_DEVICE_TYPES][CR_MAX_DEVICES]; /* NULL: not opened yet */
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .count_lock = PTHREAD_MUTEX_INITIALIZER};

static const cr_backend *find_backend(crema_device_type type) {
  int i = (int)type;
  if (i < 0 || i >= CR_DEVICE_TYPES) return NULL;
  return built_in[i] != NULL ? built_in[i] : atomic_load(&registry.plugin[i]);
}

static const char *type_name(crema_device_type type) {
  switch (type) {
    case CREMA_DEVICE_CPU: return "cpu";
    case CREMA_DEVICE_CUDA: return "cuda";
    case CREMA_DEVICE_SIM: return "sim";
    case CREMA_DEVICE_OPENCL: return "opencl";
  }
  return "unknown";
}

crema_status cr_backend_register(const cr_backend *backend) {
  int i = (int)backend->type;
  if (i < 0 || i >= CR_DEVICE_TYPES) {
    return cr_fail(CREMA_E_RANGE, "there are no back ends of type %d", i);
  }
  const cr_backend *there = NULL;
  if (built_in[i] == NULL &&
      (atomic_compare_exchange_strong(&registry.plugin[i], &there, backend) || there == backend)) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_EXISTS, "a back end for %s devices is there already",
                 type_name(backend->type));
}

crema_status cr_backend_find(crema_device_type type, const cr_backend **out) {
  const cr_backend *backend = find_backend(type);
  if (backend == NULL) {
    return cr_fail(CREMA_E_NO_DEVICE, "no %s devices: this build has no such back end",
                   type_name(type));
  }
  *out = backend;
  return CREMA_OK;
}

crema_status cr_backend_load(crema_device_type type, const cr_backend **out) {
  if (cr_plugin_has(type) && find_backend(type) == NULL) {
    const cr_backend *backend = NULL;
    CR_TRY(cr_plugin_load(type, &backend));
    CR_TRY(cr_backend_register(backend));
  }
  return cr_backend_find(type, out);
}

crema_device_type cr_registry_gpu_type(void) {
  const char *opencl = getenv("CREMA_OPENCL");
  return opencl != NULL && opencl[0] != '\0' ? CREMA_DEVICE_OPENCL : CREMA_DEVICE_CUDA;
}

/* Asks the back end once. A driver that fails has no devices, which is logged once. */
static crema_status count_devices(const cr_backend *backend, int *out) {
  *out = 0;
  pthread_mutex_lock(&registry.count_lock);
  device_count answer = registry.count[backend->type];
  pthread_mutex_unlock(&registry.count_lock);
  if (!answer.known) {
    answer = (device_count){.known = true};
    answer.status = backend->count(&answer.devices);
    if (answer.status != CREMA_OK) {
      answer.devices = 0;
      snprintf(answer.text, sizeof answer.text, "%s", crema_error_text());
    }
    pthread_mutex_lock(&registry.count_lock);
    bool first = !registry.count[backend->type].known;
    registry.count[backend->type] = answer;
    pthread_mutex_unlock(&registry.count_lock);
    if (first && answer.status != CREMA_OK) {
      cr_log_warning("no %s devices: %s", backend->name, answer.text);
    }
  }
  *out = answer.devices;
  return answer.status == CREMA_OK ? CREMA_OK : cr_fail_text(answer.status, answer.text);
}

void cr_registry_clear_count(crema_device_type type) {
  pthread_mutex_lock(&registry.count_lock);
  registry.count[type].known = false;
  pthread_mutex_unlock(&registry.count_lock);
}

int crema_device_count(crema_device_type type) {
  const cr_backend *backend = NULL;
  int count = 0;
  cr_signals_hold(); /* so that threads that a driver starts receive none */
  if (cr_backend_load(type, &backend) != CREMA_OK || count_devices(backend, &count) != CREMA_OK) {
    count = 0;
  }
  cr_signals_release();
  return count;
}

/* Devices access each other's memory directly within groups of eight, if the hardware allows it. A
 * failure costs speed only. With the registry's lock held. */
static void enable_peer(crema_device *device, crema_device *peer) {
  const cr_backend *backend = device->backend;
  if (!crema_device_reaches(device, peer)) return;
  if (cr_device_enable_peer(device, peer) != CREMA_OK) {
    cr_log_warning("no direct access from %s:%d to %s:%d: %s", backend->name, device->index,
                   backend->name, peer->index, crema_error_text());
  }
}

static void connect_peers(crema_device *device) {
  if (device->backend->can_access_peer == NULL) return;
  int first = device->index / PEER_GROUP * PEER_GROUP;
  for (int i = first; i < first + PEER_GROUP && i < CR_MAX_DEVICES; ++i) {
    crema_device *peer = atomic_load(&registry.device[device->backend->type][i]);
    if (peer == NULL || i == device->index) continue;
    enable_peer(device, peer);
    enable_peer(peer, device);
  }
}

/* The kind of pool that the environment requests, if any. */
static crema_status choose_pool(void) {
  const char *text = getenv("CREMA_GPU_POOL");
  cr_pool_mode mode = CR_POOL_BINS;
  if (text == NULL || text[0] == '\0') return CREMA_OK;
  CR_TRY(cr_fail_in(cr_pool_mode_parse(text, &mode), "CREMA_GPU_POOL"));
  if (mode == CR_POOL_THC) {
    cr_log_warning(
        "CREMA_GPU_POOL=thc: memory goes to its next user before queued work is done with "
        "it, which is right for programs of one stream only");
  }
  return cr_fail_in(cr_pool_set_mode(mode), "CREMA_GPU_POOL");
}

/* With the registry's lock held. */
static crema_status open_device(const cr_backend *backend, int index, crema_device **out) {
  if (backend == &cr_backend_cpu) {
    *out = cr_cpu_device();
    return CREMA_OK;
  }
  crema_device *device = calloc(1, sizeof *device);
  if (device == NULL) return cr_fail_memory(sizeof *device, "a device");
  device->backend = backend;
  device->index = index;
  pthread_mutex_init(&device->lock, NULL);
  crema_status status;
  CR_TRY_GOTO(backend->open(device), fail);
  if (!backend->host_memory) {
    CR_TRY_GOTO(choose_pool(), close);
    const cr_pool_options options = cr_pool_options_for(cr_pool_current_mode());
    CR_TRY_GOTO(cr_pool_create(device, &options, &device->pool), close);
  }
  connect_peers(device);
  *out = device;
  return CREMA_OK;
close:
  backend->close(device);
fail:
  pthread_mutex_destroy(&device->lock);
  free(device);
  return cr_fail_in(status, "device %s:%d", backend->name, index);
}

static crema_status find_or_open(crema_device_type type, int index, crema_device **out) {
  const cr_backend *backend = NULL;
  CR_TRY(cr_backend_load(type, &backend));
  int count = 0;
  crema_status status = count_devices(backend, &count);
  if (status != CREMA_OK) {
    return cr_fail_in(CREMA_E_NO_DEVICE, "no %s devices", backend->name);
  }
  if (count > CR_MAX_DEVICES) {
    return cr_fail(CREMA_E_RANGE, "%d %s devices are more than the %d that crema supports", count,
                   backend->name, CR_MAX_DEVICES);
  }
  if (index < 0 || index >= count) {
    return cr_fail(CREMA_E_NO_DEVICE, "no device %s:%d: there are %d", backend->name, index, count);
  }
  crema_device *device = atomic_load(&registry.device[type][index]);
  if (device == NULL) {
    pthread_mutex_lock(&registry.lock);
    device = atomic_load(&registry.device[type][index]);
    if (device == NULL) status = open_device(backend, index, &device);
    if (status == CREMA_OK) atomic_store(&registry.device[type][index], device);
    pthread_mutex_unlock(&registry.lock);
  }
  if (status == CREMA_OK) *out = device;
  return status;
}

crema_status crema_device_get(crema_device_type type, int index, crema_device **out) {
  CR_REQUIRE(out);
  cr_signals_hold();
  crema_status status = find_or_open(type, index, out);
  cr_signals_release();
  return status;
}

crema_status crema_device_open(crema_device_type type, const int *index, int count) {
  if (count > 0) CR_REQUIRE(index);
  for (int i = 0; i < count; ++i) {
    crema_device *device = NULL;
    CR_TRY(crema_device_get(type, index[i], &device));
    atomic_store(&device->named, true);
  }
  return CREMA_OK;
}

void cr_registry_close(crema_device_type type) {
  const cr_backend *backend = find_backend(type);
  if (backend == NULL || type == CREMA_DEVICE_CPU) return;
  cr_registry_clear_count(type);
  pthread_mutex_lock(&registry.lock);
  for (int i = 0; i < CR_MAX_DEVICES; ++i) {
    crema_device *device = atomic_exchange(&registry.device[type][i], NULL);
    if (device == NULL) continue;
    cr_pool_destroy(device->pool);
    backend->close(device);
    pthread_mutex_destroy(&device->lock);
    free(device);
  }
  pthread_mutex_unlock(&registry.lock);
}
