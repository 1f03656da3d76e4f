/* Loads a network and prints the best class of an image:
 *   classify deploy.prototxt net.caffemodel image.jpg */
#include <crema/crema.h>
#include <stdio.h>

static int fail(void) {
  fprintf(stderr, "classify: %s\n", crema_error_text());
  return 1;
}

int main(int argc, char **argv) {
  crema_net *net = NULL;
  crema_preprocessing *images = NULL;
  const float *score = NULL;
  int best = 0;
  if (argc != 4) {
    fprintf(stderr, "usage: classify NET WEIGHTS IMAGE\n");
    return 2;
  }
  if (crema_net_load(argv[1], NULL, &net) != CREMA_OK) return fail();
  if (crema_net_load_weights(net, argv[2]) != CREMA_OK) return fail();

  crema_blob *input = crema_net_input(net, 0);
  if (crema_preprocessing_create(net, 0, &images) != CREMA_OK) return fail();
  if (crema_preprocessing_load(images, argv[3], input, 0) != CREMA_OK) return fail();
  if (crema_net_forward(net, NULL) != CREMA_OK) return fail();

  crema_blob *output = crema_net_output(net, 0);
  if (crema_blob_cpu_data(output, &score) != CREMA_OK) return fail();
  for (int i = 1; i < crema_blob_count(output); ++i) {
    if (score[i] > score[best]) best = i;
  }
  printf("class %d, score %.3f\n", best, score[best]);
  crema_preprocessing_destroy(images);
  crema_net_destroy(net);
  return 0;
}
