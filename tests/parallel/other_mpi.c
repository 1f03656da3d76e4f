/* A library that has the file name of Open MPI's and is another one. */
int MPI_Get_library_version(char *text, int *length);

int MPI_Get_library_version(char *text, int *length) {
  text[0] = '\0';
  *length = 0;
  return 0;
}
