/* A native program that tells warpsight what it is doing. Without a recording it runs just the same.
 *
 *   cc -I"$(python -c 'import os, warpsight; print(os.path.dirname(warpsight.__file__))')/include" annotate.c
 * -o annotate -ldl warpsight record -- ./annotate
 */
#include <stdio.h>
#include <warpsight.h>

static double work(int step) {
  double sum = 0;
  for (int i = 1; i < 200000; ++i) sum += 1.0 / ((double)i * i + step);
  return sum;
}

int main(void) {
  int status = warpsight_start(NULL); /* a program that uses no GPU records from here on */
  if (status != 0) fprintf(stderr, "annotate: recording could not start (%d)\n", status);
  double sum = 0;
  for (int step = 0; step < 10; ++step) {
    warpsight_push("step");
    uint64_t start = warpsight_now();
    sum += work(step);
    warpsight_emit("work", start, warpsight_now() - start, "compute", "{\"unit\": \"host\"}");
    warpsight_counter("sum", sum, "1");
    warpsight_pop();
  }
  if (sum > 16) warpsight_trigger("the sum passed 16");
  warpsight_mark("done");
  printf("%.6f\n", sum);
  return 0;
}
