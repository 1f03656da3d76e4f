/* Hand-over of one block between a copy stream and a compute stream, as memory/syncedmem.c does it:
 * the automaton of four states, with asynchronous push.
 *
 * A prefetching thread changes the host side, pushes it to the device on the copy stream
 * (asynchronously), waits for the copy and hands the block over. A training thread reads or writes
 * the device side with a kernel on the compute stream and gives the block back without waiting for
 * the kernel. What comes next on another stream must therefore follow the kernel: the block remembers
 * the context that used it last, and another context's queue waits for that one's work so far. A host
 * that wants to keep what a kernel wrote fetches it first.
 *
 * Proved: a kernel sees the bytes of its batch, whole; the host never writes what a copy reads; a push
 * finds the newest bytes on the host; who reads on the host after all of it reads the newest bytes;
 * nobody waits for ever.
 * Mistakes that must be found: -DNO_FOLLOW, streams are not ordered; -DNO_WAIT, the copy is not waited
 * for before the host writes again; -DKEEP_HEAD, writing on the device leaves the head where it was;
 * -DNO_FETCH, the host takes its own side for the newest; -DPUSH_ANYWHERE, a push does not ask where
 * the head is. */
#define BATCHES 3
#define MOST_TASKS 12
#define WRITTEN 16 /* what a kernel writes: the batch's number and this */
#define COPY 0
#define COMPUTE 1

mtype = { uninitialized, head_at_cpu, head_at_gpu, synced };
mtype = { none, h2d, d2h, reads, writes };

/* A stream's queue: what its tasks are, by number. */
typedef Stream {
  byte queued; /* tasks submitted */
  byte done;
  mtype task[MOST_TASKS];
  byte batch[MOST_TASKS]; /* for a kernel: whose bytes it must see, or writes */
  byte after[MOST_TASKS]; /* tasks of the other stream that must be done before */
};
Stream s[2];

mtype head = uninitialized;
byte host = 0;        /* what the host side holds */
byte device = 0;      /* what the device side holds */
byte newest = 0;      /* what the block holds, whichever side that is on */
bool copying = false; /* a copy is using the host side */
bool running = false; /* a kernel is using the device side */
byte user = COPY;     /* context that used the device side last */
bool over = false;

chan filled = [1] of { byte };
chan returned = [1] of { byte };

inline submit(stream, what, number) {
  d_step {
    s[stream].task[s[stream].queued] = what;
    s[stream].batch[s[stream].queued] = number;
    s[stream].after[s[stream].queued] = 0;
#ifndef NO_FOLLOW
    if
    :: user != stream -> s[stream].after[s[stream].queued] = s[1 - stream].queued
    :: else
    fi;
#endif
    if
    :: what != d2h -> user = stream /* a fetch is waited for, so nobody need follow it */
    :: else
    fi;
    s[stream].queued++
  }
}

/* Runs the tasks of a stream in order; each takes two steps, so that others can come between. */
proctype runner(byte me) {
  byte at;
  do
  :: s[me].done < s[me].queued ->
     at = s[me].done;
     s[1 - me].done >= s[me].after[at];
     if
     :: s[me].task[at] == h2d ->
        atomic { assert(!running); copying = true };
        atomic { device = host; copying = false }
     :: s[me].task[at] == d2h ->
        atomic { assert(!running); copying = true };
        atomic { host = device; copying = false }
     :: s[me].task[at] == reads ->
        atomic { assert(device == s[me].batch[at]); running = true };
        atomic { assert(device == s[me].batch[at]); running = false }
     :: s[me].task[at] == writes ->
        atomic { assert(device == s[me].batch[at]); running = true };
        atomic {
          assert(device == s[me].batch[at]);
          device = s[me].batch[at] + WRITTEN;
          running = false
        }
     fi;
     s[me].done++
  :: over && s[me].done == s[me].queued -> break
  od
}

inline wait_for_copies() {
  s[COPY].done == s[COPY].queued
}

/* cpu_data(), and the first half of mutable_cpu_data() with the bytes kept. */
inline read_on_host() {
  if
#ifndef NO_FETCH
  :: head == head_at_gpu ->
     submit(COPY, d2h, 0);
     wait_for_copies();
     head = synced
#endif
  :: head == uninitialized -> head = head_at_cpu
  :: else
  fi;
  assert(host == newest)
}

inline async_push(number) {
#ifndef PUSH_ANYWHERE
  assert(head == head_at_cpu);
#endif
  assert(host == newest);
  submit(COPY, h2d, number);
  head = synced
}

active proctype prefetch() {
  byte batch = 1, token;
  do
  :: batch <= BATCHES ->
     returned ? token;
     if
     :: read_on_host()
     :: skip /* write-only: what is there is not needed */
     fi;
#ifdef PUSH_ANYWHERE
     if
     :: batch > 1 -> async_push(batch)
     :: else
     fi;
#endif
     head = head_at_cpu;
     atomic { assert(!copying); host = batch; newest = batch };
     async_push(batch);
#ifndef NO_WAIT
     wait_for_copies(); /* the stream is waited for before the hand-over */
#endif
     filled ! batch;
     batch++
  :: else -> break
  od
}

active proctype train() {
  byte batch, seen = 0;
  do
  :: seen < BATCHES ->
     filled ? batch;
     assert(head == synced);
     if
     :: submit(COMPUTE, reads, batch)
     :: submit(COMPUTE, writes, batch);
        newest = batch + WRITTEN;
#ifndef KEEP_HEAD
        head = head_at_gpu
#endif
     fi;
     seen++;
     if
     :: seen < BATCHES -> returned ! 0
     :: else
     fi
  :: else -> break
  od;
  read_on_host();
  over = true
}

init {
  returned ! 0;
  run runner(COPY);
  run runner(COMPUTE)
}
