/* Help topics, which are not commands: `crema help TOPIC`. */
#ifndef CREMA_TOOLS_HELP_H
#define CREMA_TOOLS_HELP_H

typedef struct cli_topic {
  const char *name, *summary;
  void (*print)(void);
} cli_topic;

/* The environment variables that crema reads (environment.c). */
void cli_print_environment(void);

/* The command, and for which use, that another program gives the name `word`; NULL: none. */
const char *cli_command_hint(const char *word);

/* What crema is and its commonest commands, in ten lines. */
void cli_print_overview(void);

#endif
