/* Layers of type Python in the command: an interpreter in this process, started when a net has such
 * a layer. */
#ifndef CREMA_TOOLS_PYTHON_LAYERS_H
#define CREMA_TOOLS_PYTHON_LAYERS_H

/* Lets nets have layers of type Python. Starts nothing yet. */
void cli_python_allow(void);

/* Ends the interpreter, which writes out its standard streams. A no-op if there is none. */
void cli_python_stop(void);

#endif
