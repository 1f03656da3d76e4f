/* The report that `crema train -input_report` prints at the end. */
#ifndef CREMA_TOOLS_INPUT_REPORT_H
#define CREMA_TOOLS_INPUT_REPORT_H

#include "crema/net.h"

/* Prints a report for each layer of the net that reads samples from files or databases. It has the
 * samples per second of the layer's reader, decoder and transformer, the time that training waited
 * for it and it for training. It also has how many batches were ready over time. `seconds` is how
 * long training took, tests included. When training waited for more than 5 % of the time, names the
 * slow stage. */
void cli_input_report(crema_net *net, double seconds);

#endif
