/* The exchange along a tree of devices, as parallel/tree_exchange.c and parallel/link.c do it: each
 * link between a parent and a child carries slots round, free and full, in each direction one; the
 * child says where it wants the weights. A stream runs behind its thread: what a thread has queued
 * is done in order, later, and events order the streams. Any rank may fail at any moment, which
 * closes all queues.
 *
 * The tree is one of those for up to four devices: -DN=2, 3 (0:1, 0:2) or 4 (0:1, 2:3, 0:2), or a
 * chain of three (-DCHAIN).
 *
 * Proved: no rank waits for ever, whether one fails or not; the root's sum has each rank's gradient
 * of this iteration once; each rank computes with the weights of this iteration; nobody overwrites
 * what another still reads.
 * Mistakes that must be found: -DNO_OFFER, weights are written before the child is ready;
 * -DNO_RELEASE, a child sends before its parent has added what it sent before; -DNO_EVENT, a parent
 * adds what it was told of without waiting for the copy; -DKEEP_OPEN, a failure does not close the
 * queues. */
#ifndef N
#define N 4
#endif
#ifndef ITERATIONS
#define ITERATIONS 2
#endif
#ifndef SUMS
#define SUMS 2 /* spans that are summed in an iteration, one after the other */
#endif
#define NOBODY 255

byte parent[4];

byte weight[N];   /* the iteration whose weights a rank has */
byte gradient[N]; /* a set of ranks, as bits: whose gradients are in the sum */
byte inbox[N];    /* what rank i has sent to its parent */
byte arrived[N];  /* copies to inbox[i] that are done */
bool computing[N];
bool closed = false;
bool failed = false;

/* Each link's queues, by child. */
chan offer[N] = [1] of { byte };    /* up: the iteration that the child is in */
chan weights[N] = [1] of { byte };  /* down: weights were copied */
chan gradients[N] = [1] of { byte };/* up: a gradient was queued */
chan released[N] = [1] of { byte }; /* down: the inbox may be used again */
chan copies[N] = [2] of { byte };   /* the stream of a child, which copies its gradient up */

#ifdef KEEP_OPEN
#define IS_CLOSED false
#else
#define IS_CLOSED closed
#endif

#define PUT(queue, value)              \
  if                                   \
  :: atomic { nfull(queue) -> queue!value } \
  :: IS_CLOSED -> goto over            \
  fi

#define TAKE(queue, value)             \
  if                                   \
  :: atomic { nempty(queue) -> queue?value } \
  :: IS_CLOSED -> goto over            \
  fi

/* A child's stream: copies what it has summed to the parent's device. */
proctype stream(byte me) {
  byte bits;
end:
  do
  :: copies[me]?bits ->
     assert(inbox[me] == 0); /* the parent has added what was there */
     inbox[me] = bits;
     arrived[me]++
  od
}

inline may_fail() {
  if
  :: true
#ifndef NEVER_FAIL
  :: atomic { !failed -> failed = true; closed = true }; goto over
#endif
  fi
}

inline compute() {
  computing[me] = true;
  assert(weight[me] == iteration);
  computing[me] = false
}

proctype rank(byte me) {
  byte iteration = 1, child, got, sum, sums = 0;
  do
  :: iteration > ITERATIONS -> break
  :: else ->
     may_fail();
     /* Down: the root has new weights; the others get theirs. */
     if
     :: me == 0 -> weight[0] = iteration
     :: else ->
#ifndef NO_OFFER
        PUT(offer[me], iteration);
#endif
        TAKE(weights[me], got);
        assert(weight[me] == iteration)
     fi;
     child = N - 1;
     do
     :: child == 0 -> break
     :: else ->
        if
        :: parent[child] == me ->
#ifndef NO_OFFER
           TAKE(offer[child], got);
#endif
           d_step { assert(!computing[child]); weight[child] = weight[me] };
           PUT(weights[child], iteration)
        :: else
        fi;
        child--
     od;
     /* Forward and backward. */
     compute();
     may_fail();
     /* Up: the children in their order. */
     sum = 0;
     do
     :: sum == SUMS -> break
     :: else ->
        sum++;
        sums++;
        gradient[me] = 1 << me;
        child = 1;
        do
        :: child == N -> break
        :: else ->
           if
           :: parent[child] == me ->
              TAKE(gradients[child], got);
#ifndef NO_EVENT
              arrived[child] >= sums;
#endif
              d_step {
                assert((gradient[me] & inbox[child]) == 0);
                gradient[me] = gradient[me] | inbox[child];
                inbox[child] = 0
              };
              skip;
#ifndef NO_RELEASE
              PUT(released[child], sums)
#endif
           :: else
           fi;
           child++
        od;
        if
        :: me == 0 -> assert(gradient[0] == (1 << N) - 1)
        :: else ->
#ifndef NO_RELEASE
           TAKE(released[me], got);
#endif
           copies[me]!gradient[me];
           PUT(gradients[me], sums)
        fi
     od;
     /* What a rank does with its weights at the end of an iteration. */
     compute();
     iteration++
  od;
over:
  skip
}

init {
  byte i;
  atomic {
#ifdef CHAIN
    parent[1] = 0; parent[2] = 1; parent[3] = 2;
#else
    parent[1] = 0; parent[2] = 0; parent[3] = 2;
#endif
    parent[0] = NOBODY;
    i = 1;
    do
    :: i == N -> break
    :: else -> released[i]!0; run stream(i); i++
    od;
    i = 0;
    do
    :: i == N -> break
    :: else -> run rank(i); i++
    od
  }
}
