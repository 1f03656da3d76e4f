/* A module that test_module.c has opened. */
int crema_test_opened(void);

int crema_test_opened(void) {
  return 42;
}
