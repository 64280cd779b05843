/* Three phases of work, annotated; the same program runs unchanged where warpsight is not there. */
#include <stdio.h>
#include <warpsight.h>

int main(void) {
  double sum = 0;
  /* A program that uses CUDA or OpenCL is recording already; one that does not starts by itself. */
  if (warpsight_start(NULL) != 0) fprintf(stderr, "recording did not start\n");
  for (int phase = 0; phase < 3; phase++) {
    warpsight_push("phase");
    for (int i = 1; i < 1000000; i++) sum += 1.0 / i;
    warpsight_counter("sum", sum, "1");
    warpsight_pop();
  }
  printf("%.3f, %s\n", sum, warpsight_recording() ? "recorded" : "not recorded");
  warpsight_stop();
  return 0;
}
