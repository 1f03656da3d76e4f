/* Passes of a net that its device has captured in graphs (memory/capture.h).
 *
 * The layers up to the last that brings samples in run as they do without graphs. A section is the
 * work of consecutive layers in one direction, and each section has its own graphs. The forward
 * pass is one section. The backward pass is one section too, unless a watcher acts between its
 * layers: then each of these layers ends a section. A section that no graph can hold runs layer by
 * layer, and the log says once why. */
#ifndef CR_NET_GRAPHS_H
#define CR_NET_GRAPHS_H

#include "net/net.h"

typedef enum cr_net_direction { CR_FORWARD, CR_BACKWARD } cr_net_direction;

typedef struct cr_net_section {
  cr_net_direction direction;
  int first, last; /* layers */
} cr_net_section;

/* For a net whose graph of layers is complete. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_net_graphs_make(crema_net *net) CREMA_MUST_USE;
void cr_net_graphs_free(crema_net *net);

/* The first layer whose forward work is captured. */
int cr_net_graphs_first(const crema_net *net);

/* Whether the section goes to the functions below. False: it runs as without graphs. */
bool cr_net_graphs_wanted(crema_net *net, cr_net_section section);

/* Runs a graph instead of the section, if one fits (*ran). Otherwise the caller runs the layers and
 * then calls cr_net_graphs_end, also if they fail (`done` false). */
crema_status cr_net_graphs_run(crema_net *net, cr_net_section section, bool *ran) CREMA_MUST_USE;
crema_status cr_net_graphs_end(crema_net *net, cr_net_section section, bool done) CREMA_MUST_USE;

#endif
