/* crema completion: the shell's completion of commands and flags. */
#include <stdio.h>

#include "cli.h"

/* Reads the names from the help, so that the script fits any version of crema. */
static const char bash_script[] =
    "_crema() {\n"
    "  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} crema=${COMP_WORDS[0]} "
    "names=\n"
    "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "    names=$(\"$crema\" help 2>/dev/null | sed -n '/^Topics:/q; s/^  \\([a-z_]*\\) .*/\\1/p')\n"
    "  elif [ \"$command\" = help ]; then\n"
    "    names=$(\"$crema\" help 2>/dev/null | sed -n 's/^  \\([a-z_]*\\) .*/\\1/p')\n"
    "  elif [ \"${word#-}\" != \"$word\" ]; then\n"
    "    names=$(\"$crema\" help \"$command\" 2>/dev/null | sed -n 's/^  \\(-[a-z_]*\\).*/\\1/p')\n"
    "  fi\n"
    "  COMPREPLY=($(compgen -W \"$names\" -- \"$word\"))\n"
    "}\n"
    "complete -o default -F _crema crema\n";

int crema_cmd_completion(int argc, char **argv) {
  static const char *const shells[] = {"bash"};
  static const cli_spec spec = {
      .command = "completion",
      .arguments = "SHELL",
      .min_arguments = 1,
      .max_arguments = 1,
      .help =
          "Prints a script with which the shell completes commands, flags and topics. SHELL is\n"
          "bash. `make install` puts the script where bash finds it.\n"
          "\n"
          "Example:\n"
          "  crema completion bash >~/.local/share/bash-completion/completions/crema\n"};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (cli_find_word("SHELL", argv[1], shells, 1) < 0) return 1;
  printf("%s", bash_script);
  return 0;
}
