/* A locale in which "0.5" is written "0,5", as the program that loads the library may have it. It
 * is made here, as machines need not have one. */
#ifndef CR_TESTS_COMMA_LOCALE_H
#define CR_TESTS_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* glibc's file of LC_NUMERIC: magic number, count and offsets of the strings, decimal point,
 * separator of thousands, groups, both points as wide characters, character set. */
static inline bool comma_locale_write(const char *path) {
  static const uint32_t head[8] = {0x20031115 ^ LC_NUMERIC, 6, 32, 34, 36, 40, 44, 48};
  static const char strings[] = ",\0.\0\3\3\0\0,\0\0\0.\0\0\0ANSI_X3.4-1968";
  FILE *file = fopen(path, "wb");
  if (file == NULL) return false;
  bool good = fwrite(head, sizeof head, 1, file) == 1;
  good = fwrite(strings, sizeof strings, 1, file) == 1 && good;
  return fclose(file) == 0 && good;
}

/* False where the C library does not take it. Ends with setlocale(LC_ALL, "C"). */
static inline bool comma_locale_begin(void) {
  char folder[] = "/tmp/crema-locale-XXXXXX", place[64], path[96], text[16];
  if (mkdtemp(folder) == NULL) return false;
  snprintf(place, sizeof place, "%s/comma", folder);
  snprintf(path, sizeof path, "%s/LC_NUMERIC", place);
  bool good = mkdir(place, 0755) == 0 && comma_locale_write(path) &&
              setenv("LOCPATH", folder, 1) == 0 && setlocale(LC_NUMERIC, "comma") != NULL;
  unsetenv("LOCPATH");
  unlink(path);
  rmdir(place);
  rmdir(folder);
  snprintf(text, sizeof text, "%.1f", 0.5);
  return good && strcmp(text, "0,5") == 0;
}

#endif
