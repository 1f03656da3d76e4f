/* What `crema train -input_report` prints at the end. */
#ifndef CREMA_TOOLS_INPUT_REPORT_H
#define CREMA_TOOLS_INPUT_REPORT_H

#include "crema/net.h"

/* For each layer of the net that reads samples from files or databases: samples a second of its
 * reader, decoder and transformer, the time that training waited for it and it for training, how
 * many batches were ready in the course of time. `seconds` is how long training took, tests
 * included. When training waited for more than 5 % of the time, names the slow stage. */
void cli_input_report(crema_net *net, double seconds);

#endif
