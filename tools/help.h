/* Help topics, which are not commands: `crema help TOPIC`. */
#ifndef CREMA_TOOLS_HELP_H
#define CREMA_TOOLS_HELP_H

typedef struct cli_topic {
  const char *name, *summary;
  void (*print)(void);
} cli_topic;

/* The environment variables that crema reads (environment.c). */
void cli_print_environment(void);

/* What crema is and its commonest commands, in ten lines. */
void cli_print_overview(void);

#endif
