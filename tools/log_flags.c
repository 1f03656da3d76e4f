/* The flags of the log, which every command accepts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "crema/log.h"

void cli_log_flags_list(cli_log_flags *log, cli_flag out[CLI_LOG_FLAGS]) {
  *log = (cli_log_flags){.log_prefix = !cli_log_is_terminal()};
  const cli_flag list[CLI_LOG_FLAGS] = {
      {"minloglevel", CLI_INT, &log->minloglevel, "0 all messages, 1 warnings, 2 errors only"},
      {"v", CLI_INT, &log->v, "above 0: debugging messages as well"},
      {"log_file", CLI_FILE, &log->log_file, "append the log to this file as well"},
      {"log_dir", CLI_DIR, &log->log_dir, "append the log to crema.INFO in this folder"},
      {"log_prefix", CLI_BOOL, &log->log_prefix,
       "severity, time and place before each message; false on a terminal"},
      {"logtostderr", CLI_BOOL, &log->logtostderr, "accepted; the log always goes there"},
      {"alsologtostderr", CLI_BOOL, &log->alsologtostderr, "accepted; the log always goes there"},
      {"colorlogtostderr", CLI_BOOL, &log->colorlogtostderr, "accepted without effect"},
      {"stderrthreshold", CLI_INT, &log->stderrthreshold, "accepted; all severities go there"},
  };
  memcpy(out, list, sizeof list);
}

bool cli_log_flags_read(const cli_flag flags[CLI_LOG_FLAGS]) {
  for (int i = 0; i < CLI_LOG_FLAGS; ++i) {
    char name[64];
    snprintf(name, sizeof name, "GLOG_%s", flags[i].name);
    const char *text = getenv(name);
    if (text != NULL && text[0] != '\0' && !cli_set_flag(&flags[i], "GLOG_", text)) return false;
  }
  return true;
}

bool cli_log_flags_apply(const cli_log_flags *log) {
  int level = CREMA_LOG_INFO;
  if (log->minloglevel > 0) level += log->minloglevel < 3 ? (int)log->minloglevel : 3;
  if (log->v > 0 && log->minloglevel == 0) level = CREMA_LOG_DEBUG;
  cli_log_level(level);
  cli_log_prefix(log->log_prefix);
  if (log->log_file != NULL && !cli_log_file(log->log_file)) return false;
  if (log->log_dir == NULL || log->log_dir[0] == '\0') return true;
  char path[4096];
  int need = snprintf(path, sizeof path, "%s/crema.INFO", log->log_dir);
  if (need < 0 || (size_t)need >= sizeof path) {
    cli_usage_error("-log_dir: the name is too long");
    return false;
  }
  return cli_log_file(path);
}
