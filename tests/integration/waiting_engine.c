/* A stand-in for the engine of PyTorch's autograd, named libtorch_cpu.so: threads with a Python thread state
 * and no frames, which work while a Python thread waits without the GIL. With -DPASSES they know the number
 * of their pass. */
#include <pthread.h>
#include <stdint.h>

typedef uint32_t (*Take)(void);
int PyGILState_Ensure(void);
void* PyEval_SaveThread(void);

#define ENGINES 4

typedef struct {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  Take take;
  uint32_t* ids;
  int count, pass, pending;
  pthread_barrier_t* together;
} Engine;

static Engine engines[ENGINES];
static pthread_barrier_t both;
static int passes;

#ifdef PASSES
static __thread int current = -1;
__attribute__((visibility("default"))) int _ZN5torch8autograd25get_current_graph_task_idEv(void) {
  return current;
}
#define SET_PASS(n) (current = (n))
#else
#define SET_PASS(n) ((void)(n))
#endif

static void* work(void* argument) {
  Engine* e = argument;
  PyGILState_Ensure();
  PyEval_SaveThread();
  pthread_mutex_lock(&e->lock);
  for (;;) {
    while (!e->pending) pthread_cond_wait(&e->changed, &e->lock);
    SET_PASS(e->pass);
    if (e->together) pthread_barrier_wait(e->together);
    for (int i = 0; i < e->count; ++i) e->ids[i] = e->take();
    if (e->together) pthread_barrier_wait(e->together);
    SET_PASS(-1);
    e->pending = 0;
    pthread_cond_broadcast(&e->changed);
  }
  return 0;
}

void engine_start(void) {
  pthread_barrier_init(&both, 0, 2);
  for (int i = 0; i < ENGINES; ++i) {
    pthread_mutex_init(&engines[i].lock, 0);
    pthread_cond_init(&engines[i].changed, 0);
    pthread_create(&engines[i].thread, 0, work, &engines[i]);
  }
}

/* Has a thread take `count` stacks and waits; with `together` two such calls do it at the same time. */
void engine_run(int number, Take take, uint32_t* ids, int count, int together) {
  Engine* e = &engines[number];
  pthread_mutex_lock(&e->lock);
  e->take = take, e->ids = ids, e->count = count, e->together = together ? &both : 0;
  e->pass = __atomic_fetch_add(&passes, 1, __ATOMIC_RELAXED);
  e->pending = 1;
  pthread_cond_broadcast(&e->changed);
  while (e->pending) pthread_cond_wait(&e->changed, &e->lock);
  pthread_mutex_unlock(&e->lock);
}
